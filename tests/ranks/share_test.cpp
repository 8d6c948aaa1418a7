// SPDX-License-Identifier: Apache-2.0
#include "ranks/share.hpp"

#include <gtest/gtest.h>

#include "fit/estimate.hpp"
#include "models/family.hpp"
#include "optim/optimizer.hpp"
#include "shape/cutter.hpp"

namespace dos::ranks::share_test {
namespace {

const shape::ModelConfig kModel{"gpt2", 6, 64, 2, 32, 257};
constexpr tensor::ParameterTypes kBf16{.working = DType::kBF16, .gradient = DType::kBF16};

shape::Layout layout() {
  return shape::cut_into_subgroups(shape::find_family("gpt2").parameters(kModel), 100'000, {});
}

rt::MemoryBytes bytes(Index zero, Index rank, Index ranks, const tensor::ParameterTypes& types) {
  const RankShare share =
      share_of(layout(), rank, std::vector<double>(static_cast<std::size_t>(ranks), 1), zero);
  rt::MemoryBytes result = tensor::ParameterSet::bytes(layout(), types, share.ownership());
  result[MemoryCategory::kStates] = optim::state_bytes(layout(), {}, share.ownership());
  return result;
}

Index owned(const RankShare& share) {
  return tensor::element_count(layout(),
                               tensor::BufferPlan(layout(), {}, share.ownership()).states);
}

TEST(RankShare, OneRankHasEverything) {
  const RankShare share;
  EXPECT_EQ(share.ownership().zero, 0);
  EXPECT_TRUE(share.ownership().owns(3));
}

TEST(RankShare, EverySubgroupHasOneOwner) {
  Index sum = 0;
  for (Index rank = 0; rank < 3; ++rank) sum += owned(share_of(layout(), rank, {1, 2, 1}, 1));
  EXPECT_EQ(sum, layout().parameter_count());
}

// P parameters, O of them owned: FP32 keeps p and g of all and m, v of O.
TEST(RankShare, ZeroOneSharesStates) {
  const Index p = layout().parameter_count();
  for (const Index rank : {0, 1}) {
    const Index o = owned(share_of(layout(), rank, {1, 1}, 1));
    const rt::MemoryBytes fp32 = bytes(1, rank, 2, {});
    EXPECT_EQ(fp32[MemoryCategory::kParameters], 4 * p);
    EXPECT_EQ(fp32[MemoryCategory::kGradients], 4 * p);
    const rt::MemoryBytes bf16 = bytes(1, rank, 2, kBf16);
    EXPECT_EQ(bf16[MemoryCategory::kParameters], 4 * o) << "master parameters owned";
    EXPECT_EQ(bf16[MemoryCategory::kWorking], 2 * p);
    EXPECT_EQ(bf16[MemoryCategory::kGradients], 2 * p + 4 * o) << "FP32 sums owned";
    EXPECT_NEAR(static_cast<double>(fp32[MemoryCategory::kStates]), 8.0 * static_cast<double>(o),
                8.0 * static_cast<double>(layout().subgroups.size()) + 12);
  }
}

// Of six like layers two sets of gradients are kept, and with zero 3 at most two of parameters.
TEST(RankShare, ZeroTwoAndThreeKeepTwoLayersOfSix) {
  Index per_layer = 0;
  for (const shape::Subgroup& subgroup : layout().subgroups)
    if (subgroup.depth == 1) per_layer += subgroup.count;
  const Index p = layout().parameter_count();
  const Index others = p - 6 * per_layer;
  for (const Index zero : {2, 3}) {
    const Index o = owned(share_of(layout(), 0, {1, 1, 1, 1}, zero));
    const rt::MemoryBytes all = bytes(zero, 0, 4, kBf16);
    EXPECT_EQ(all[MemoryCategory::kGradients], 2 * (others + 2 * per_layer) + 4 * o);
    EXPECT_EQ(all[MemoryCategory::kParameters], 4 * o);
    if (zero == 2)
      EXPECT_EQ(all[MemoryCategory::kWorking], 2 * p);
    else
      EXPECT_LE(all[MemoryCategory::kWorking], 2 * (others + 2 * per_layer) + 2 * o);
  }
}

TEST(RankShare, ARankMayOwnNothing) {
  const RankShare share = share_of(layout(), 1, {1, 1e-9}, 3);
  EXPECT_EQ(owned(share), 0);
  EXPECT_EQ(bytes(1, 0, 1, {})[MemoryCategory::kParameters], 4 * layout().parameter_count());
}

TEST(TotalsByRank, AreOneLine) {
  EXPECT_EQ(fit::totals_by_rank({units::Bytes(0x1p20), units::Bytes(1)}),
            "rank 0 1.00 MiB, rank 1 1 B");
}

}  // namespace
}  // namespace dos::ranks::share_test
