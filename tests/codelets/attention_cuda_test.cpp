// SPDX-License-Identifier: Apache-2.0
// Attention on an NVIDIA GPU.
#include "codelets/attention/attention_cuda.hpp"
#include "codelets/attention_batched_run.hpp"
#include "codelets/attention_gpu_run.hpp"
#include "codelets/cuda_test.hpp"

namespace dos::test::attention_cuda_test {
namespace {

using namespace codelets;

void run_forward(const CudaContext& context, AttentionData& data) {
  run_attention_forward(data, [&](const auto&... arrays) {
    expect_done(attention_forward_cuda(context, arrays...));
  });
}

void run_backward(const CudaContext& context, AttentionData& data) {
  run_attention_backward(data, [&](const auto&... arrays) {
    expect_done(attention_backward_cuda(context, arrays...));
  });
}

void run_with(const CudaContext& context, AttentionData& data) {
  run_forward(context, data);
  run_backward(context, data);
}

void run_on_gpu(AttentionData& data) {
  run_with(cuda_context(), data);
}

constexpr AttentionShape kShapes[] = {{0, 4, 1, 4},
                                      {1, 0, 2, 4},
                                      {1, 1, 1, 1},
                                      {2, 3, 2, 5},
                                      {1, 33, 1, 16},
                                      {1, 64, 1, 64},
                                      {1, 65, 2, 8},
                                      {1, 129, 1, 24},
                                      {1, 63, 1, 80},
                                      {1, 97, 1, 128},
                                      {2, 200, 3, 64},
                                      {1, 513, 2, 64},
                                      {1, 300, 2, 96},
                                      {1, 257, 1, 128},
                                      {2, 200, 8, 64, 2},
                                      {1, 300, 6, 80, 3, 70},
                                      {1, 513, 4, 128, 1, 128},
                                      {1, 129, 2, 24, 1, 1}};

TEST_F(CudaKernel, AttentionOfLaterTokensMatchesTheReference) {
  for (AttentionShape s : kShapes)
    for (const Index first : {Index{1}, s.tokens / 2, s.tokens - 1}) {
      if (first < 1 || first >= s.tokens || s.sequences == 0) continue;
      s.first = first;
      for (const DType type : kElementTypes)
        expect_later_attention([](AttentionData& data) { run_forward(cuda_context(), data); }, s,
                               type, 0);
    }
}

TEST_F(CudaKernel, AttentionMatchesTheReference) {
  for (const AttentionShape& s : kShapes)
    for (const DType type : kElementTypes)
      for (const Index shift : {0, 1}) expect_attention(&run_on_gpu, s, type, shift);
}

// Room for two heads of three at a time.
TEST_F(CudaKernel, AttentionGoesOnWithALittleWorkspace) {
  CudaContext context = cuda_context();
  context.workspace_bytes = 2 * 70 * 4;
  for (const DType type : kElementTypes)
    for (const AttentionShape& s : {AttentionShape{1, 70, 3, 16}, {1, 70, 6, 16, 3}})
      expect_attention([&](AttentionData& data) { run_with(context, data); }, s, type, 0);
  AttentionData data({1, 70, 1, 16}, DType::kF32, 0);
  context.workspace_bytes = 4;
  EXPECT_STREQ(attention_backward_cuda(context, DType::kF32, data.shape, nullptr, nullptr, nullptr,
                                       nullptr, nullptr),
               kWorkspaceTooSmall);
}

TEST_F(CudaKernel, AttentionHasTheSameBitsEveryTime) {
  const AttentionShape s{2, 1000, 4, 64};
  for (const DType type : kElementTypes) {
    AttentionData first(s, type, 0);
    run_on_gpu(first);
    for (int run = 0; run < 3; ++run) {
      AttentionData again(s, type, 0);
      run_on_gpu(again);
      EXPECT_EQ(again.out.values(), first.out.values());
      EXPECT_EQ(again.dqkv.values(), first.dqkv.values());
    }
  }
}

TEST_F(CudaKernel, AttentionIsThatOfBatchedProducts) {
  for (const AttentionShape& s :
       {AttentionShape{2, 129, 3, 64}, {1, 257, 2, 128}, {1, 1024, 1, 64}})
    for (const DType type : kElementTypes)
      expect_same_attention(&run_on_gpu, &run_batched, s, type);
}

TEST_F(CudaKernel, AttentionAndBatchedProductsTakeWhatTheOtherLeft) {
  for (const DType type : kElementTypes) {
    const AttentionShape s{2, 97, 2, 40};
    expect_attention(
        [](AttentionData& data) {
          run_forward(cuda_context(), data);
          run_batched_backward(data);
        },
        s, type, 0);
    expect_attention(
        [](AttentionData& data) {
          run_batched_forward(data);
          run_backward(cuda_context(), data);
        },
        s, type, 0);
  }
}

TEST_F(CudaKernel, AttentionRefusesHeadsThatAreTooLarge) {
  EXPECT_NE(attention_forward_cuda(cuda_context(), DType::kF32, {1, 1, 1, 129}, nullptr, nullptr,
                                   nullptr),
            nullptr);
}

}  // namespace
}  // namespace dos::test::attention_cuda_test
