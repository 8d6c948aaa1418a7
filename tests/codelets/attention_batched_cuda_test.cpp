// SPDX-License-Identifier: Apache-2.0
// Attention of batched products on an NVIDIA GPU.
#include "codelets/attention/attention_batched_cuda.hpp"
#include "codelets/attention_batched_run.hpp"
#include "codelets/cuda_test.hpp"
#include "sanitized.hpp"

namespace dos::test::attention_batched_cuda_test {
namespace {

using namespace codelets;

// Rows of a pack, of a warp's packs, one more and one less; heads that fill packs and heads that do
// not, of up to twice what the tiled kernels take.
constexpr AttentionShape kShapes[] = {{0, 4, 1, 4},
                                      {1, 0, 2, 4},
                                      {1, 1, 1, 1},
                                      {3, 1, 2, 160},
                                      {2, 3, 2, 5},
                                      {1, 7, 3, 256},
                                      {1, 8, 1, 16},
                                      {3, 17, 2, 33},
                                      {1, 64, 2, 129},
                                      {2, 65, 2, 80},
                                      {1, 97, 1, 255},
                                      {1, 128, 1, 96},
                                      {1, 256, 1, 8},
                                      {1, 257, 2, 16},
                                      {1, 530, 1, 24},
                                      // Shared keys and values; windows.
                                      {2, 33, 4, 160, 2},
                                      {1, 70, 6, 20, 2, 9},
                                      {1, 130, 3, 256, 1, 64},
                                      {1, 40, 2, 16, 0, 1}};

TEST_F(CudaKernel, BatchedAttentionMatchesTheReference) {
  int number = 0;
  for (const AttentionShape& s : kShapes)
    for (const DType type : kElementTypes)
      for (const Index shift : {0, 1})
        if (tries(number++, 5)) expect_attention(&run_batched, s, type, shift);
}

TEST_F(CudaKernel, BatchedAttentionOfLaterTokensMatchesTheReference) {
  int number = 0;
  for (AttentionShape s : kShapes)
    for (const Index first : {s.tokens / 2, s.tokens - 1}) {
      if (first < 1 || first >= s.tokens || s.sequences == 0) continue;
      s.first = first;
      for (const DType type : kElementTypes)
        if (tries(number++, 3))
          expect_later_attention([](AttentionData& data) { run_batched_forward(data); }, s, type,
                                 0);
    }
}

TEST_F(CudaKernel, BatchedAttentionGoesOnWithRoomForFewHeads) {
  for (const AttentionShape& s : {AttentionShape{2, 37, 5, 20}, {1, 37, 6, 20, 2}})
    for (const DType type : kElementTypes)
      for (const Index heads : {1, 2, 3}) {
        SCOPED_TRACE(heads);
        const AttentionRun run = [&](AttentionData& data) {
          run_batched_forward(data, heads);
          run_batched_backward(data, heads);
        };
        expect_attention(run, s, type, 0);
      }
}

TEST_F(CudaKernel, BatchedAttentionSaysThatNoHeadHasRoom) {
  const AttentionShape s{1, 70, 2, 16};
  const Index one = attention_scores_of_head(s.tokens);
  EXPECT_STREQ(attention_forward_batched_cuda(cuda_context(), DType::kF32, s, nullptr, nullptr,
                                              nullptr, {nullptr, one / 2 - 1}),
               kWorkspaceTooSmall);
  EXPECT_STREQ(attention_backward_batched_cuda(cuda_context(), DType::kBF16, s, nullptr, nullptr,
                                               nullptr, nullptr, nullptr, {nullptr, one - 1}),
               kWorkspaceTooSmall);
}

TEST_F(CudaKernel, BatchedAttentionHasTheSameBitsEveryTime) {
  const AttentionShape s{2, 150, 2, 160};
  for (const DType type : kElementTypes) {
    AttentionData first(s, type, 0);
    run_batched(first);
    AttentionData again(s, type, 0);
    run_batched(again);
    EXPECT_EQ(again.out.values(), first.out.values());
    EXPECT_EQ(again.dqkv.values(), first.dqkv.values());
    EXPECT_EQ(again.logsumexp, first.logsumexp);
  }
}

// Scores of about +-1e4 overflow unless the largest is subtracted first.
TEST_F(CudaKernel, BatchedAttentionStaysFiniteWithExtremeScores) {
  for (const DType type : kElementTypes) {
    AttentionData data({1, 70, 1, 16}, type, 0);
    for (Index i = 0; i < data.qkv.count(); ++i)
      if (i % 48 < 32) data.qkv.set(i, 64 * data.qkv.get(i));
    run_batched(data);
    for (const float v : data.out.values()) ASSERT_TRUE(std::isfinite(v));
    for (const float v : data.dqkv.values()) ASSERT_TRUE(std::isfinite(v));
  }
}

// A value that is not finite spoils those that see it; which others, attention_batched_cuda.hpp
// says.
TEST_F(CudaKernel, BatchedAttentionPassesBadInputsOn) {
  const AttentionShape s{2, 40, 1, 16};
  for (const Index part : {0, 1, 2}) {
    AttentionData data(s, DType::kBF16, 0);
    data.qkv.set(30 * 48 + part * 16 + 3, kCudaNan);
    run_batched(data);
    for (Index t = 30; t < s.tokens; ++t) {
      const bool bad = std::isnan(data.out.get(t * 16)) || std::isnan(data.out.get(t * 16 + 3));
      EXPECT_EQ(bad, t == 30 || part != 0) << "part " << part << " token " << t;
    }
    bool is_gradient_bad = false;
    for (Index i = 0; i < s.tokens * 48; ++i)
      is_gradient_bad = is_gradient_bad || std::isnan(data.dqkv.get(i));
    EXPECT_TRUE(is_gradient_bad);
    for (Index i = s.tokens * 16; i < data.out.count(); ++i)
      ASSERT_TRUE(std::isfinite(data.out.get(i))) << "of the other sequence";
  }
}

TEST(AttentionScores, HoldsAsManyHeadsAsFitAndOneAtLeast) {
  const auto heads = [](Index tokens, Index all) {
    return attention_score_bytes({1, tokens, all, 160}) / attention_scores_of_head(tokens);
  };
  EXPECT_EQ(attention_scores_of_head(1024), 2 * 1024 * 1024 * 4);
  EXPECT_EQ(attention_scores_of_head(1025), 2 * 1025 * 1040 * 4);
  EXPECT_EQ(heads(1, 3), 3);
  EXPECT_EQ(heads(1024, 3), 3);
  EXPECT_EQ(heads(1024, 16), 4);
  EXPECT_EQ(heads(2048, 16), 1);
  EXPECT_EQ(heads(4096, 16), 1);
  EXPECT_EQ(attention_score_bytes({1, 0, 4, 160}), 0);
  // Of heads that share keys those that share one.
  EXPECT_EQ(attention_score_bytes({1, 16, 12, 160, 4}), 3 * attention_scores_of_head(16));
}

}  // namespace
}  // namespace dos::test::attention_batched_cuda_test
