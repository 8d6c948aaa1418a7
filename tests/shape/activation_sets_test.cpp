// SPDX-License-Identifier: Apache-2.0
#include "shape/activation_sets.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "shape/model.hpp"

namespace dos::shape::activation_sets_test {
namespace {

TEST(Activations, OfGpt2AreThoseOfTheFormula) {
  // (L + 1) C + S (15 C + H + 4) + C + 2, in training 2 C + 2 * 12 C more: docs/memory.md.
  for (const Index layers : {1, 2, 12})
    for (const bool recompute : {false, true}) {
      const ModelConfig config{"gpt2", layers, 48, 3, 64, 100};
      const Index sets = recompute ? std::min<Index>(2, layers) : layers;
      const ActivationCount count =
          count_activations(gpt2(), config, {.plan = recompute_if(recompute)});
      EXPECT_EQ(count.values,
                (layers + 2) * 48 + sets * 15 * 48 + 2 * 48 + std::min<Index>(2, layers) * 12 * 48);
      EXPECT_EQ(count.wide, sets * (3 + 4) + 2);
      EXPECT_EQ(count.bytes(2), 2 * count.values + 4 * count.wide);
      // Forward alone has one block's, whatever is kept.
      const Passes forward{.training = false, .plan = recompute_if(recompute)};
      EXPECT_EQ(count_activations(gpt2(), config, forward).values, (layers + 2) * 48 + 15 * 48);
    }
}

// What backward does not reach need not be kept: forward alone needs one set.
TEST(Activations, AreKeptOfBlocksThatBackwardReaches) {
  const ModelConfig config{"gpt2", 12, 48, 3, 64, 100};
  for (const auto& [depth, reached] :
       {std::pair<Index, Index>{0, 12}, {1, 12}, {2, 11}, {11, 2}, {12, 1}, {13, 0}, {14, 0}}) {
    SCOPED_TRACE(depth);
    EXPECT_EQ(reached_blocks(config, depth), reached);
    for (const bool recompute : {false, true}) {
      const Passes passes{.plan = recompute_if(recompute), .reached = reached};
      const Index sets = std::max<Index>(1, recompute ? std::min<Index>(2, reached) : reached);
      EXPECT_EQ(ActivationSets(config, passes).count({"any", 1}), sets);
      EXPECT_EQ(gradient_sets(config, passes), std::min<Index>(2, reached));
      EXPECT_EQ(count_activations(gpt2(), config, passes).values,
                14 * 48 + sets * 15 * 48 + 2 * 48 + std::min<Index>(2, reached) * 12 * 48);
    }
  }
}

TEST(Activations, OfLlamaHaveItsWidths) {
  // Keys and values of 2 heads of 16, an MLP of 96: 5 C + 2 * 32 + 3 * 96 kept, 6 C + 2 * 32 +
  // 3 * 96 gradients.
  const ModelConfig config{"llama", 4, 64, 4, 8, 100, /*kv_heads=*/2, /*ffn=*/96};
  const ActivationCount count = count_activations(llama(), config, {});
  EXPECT_EQ(count.values,
            6 * 64 + 4 * (5 * 64 + 64 + 3 * 96) + 2 * 64 + 2 * (6 * 64 + 64 + 3 * 96));
  EXPECT_EQ(count.wide, 4 * (4 + 2) + 1);
}

TEST(Activations, OfLlamaFollowItsChoices) {
  // Heads of 24 make attention 96 wide, which is 32 more than the width; with norms of heads the
  // 6 heads of queries and keys are kept once more, and a number of each.
  const ModelConfig usual{"llama", 1, 64, 4, 8, 100, /*kv_heads=*/2, /*ffn=*/96};
  const auto count = [](const ModelConfig& config) {
    return count_activations(llama(), config, {.training = false});
  };
  ModelConfig wide = usual;
  wide.head_dim = 24;
  EXPECT_EQ(count(wide).values - count(usual).values, 2 * 32 + 2 * 2 * 8);
  ModelConfig normed = wide;
  normed.qk_norm = true;
  EXPECT_EQ(count(normed).values - count(wide).values, 6 * 24);
  EXPECT_EQ(count(normed).wide - count(wide).wide, 6);
}

TEST(Activations, RowsOfLogitsAreFilledUp) {
  EXPECT_EQ(logits_stride(1), 64);
  EXPECT_EQ(logits_stride(64), 64);
  EXPECT_EQ(logits_stride(50257), 50304);
}

// docs/memory.md: of 15 C the norms and GELU's output are made again; each reads what it is made
// of.
TEST(Activations, OfABlockAreMadeByProductsOrCheap) {
  const ModelConfig gpt{"gpt2", 5, 48, 3, 64, 100};
  EXPECT_EQ(count_block(gpt2(), gpt, /*is_cheap=*/false).values, 9 * 48);
  EXPECT_EQ(count_block(gpt2(), gpt, /*is_cheap=*/false).wide, 3);
  EXPECT_EQ(count_block(gpt2(), gpt, /*is_cheap=*/true).values, 6 * 48);
  EXPECT_EQ(cheap_traffic(gpt2(), gpt), (2 + 2 + 8) * 48);
  const ModelConfig llama_like{"llama", 4, 64, 4, 8, 100, /*kv_heads=*/2, /*ffn=*/96};
  EXPECT_EQ(count_block(llama(), llama_like, /*is_cheap=*/true).values, 2 * 64 + 96);
  EXPECT_EQ(cheap_traffic(llama(), llama_like), 4 * 64 + 2 * 96 + 96);
}

// Of five blocks that share three sets, two are overwritten before backward: those are moved.
TEST(Activations, AreMovedWhereTheyAreOverwritten) {
  const ModelConfig config{"gpt2", 5, 48, 3, 64, 100};
  const Passes to_host{.plan = {.hosted = ActivationPlan::kAll}};
  EXPECT_EQ(count_moved(gpt2(), config, to_host, Refill::kHost).values, 2 * 9 * 48);
  EXPECT_EQ(count_moved(gpt2(), config, to_host, Refill::kDisk).values, 0);
  const Passes both{.plan = {.moved = 1, .hosted = 4}};
  EXPECT_EQ(count_moved(gpt2(), config, both, Refill::kHost).wide, 3);
  EXPECT_EQ(count_moved(gpt2(), config, both, Refill::kDisk).wide, 3);
  EXPECT_EQ(ActivationSets(config, both).count(Refill::kNone), 3);
}

}  // namespace
}  // namespace dos::shape::activation_sets_test
