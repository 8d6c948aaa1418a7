// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN on an NVIDIA GPU.
#include "codelets/attention/attention_cudnn.hpp"

#include "codelets/attention/attention_cudnn_plan.hpp"
#include "codelets/attention_batched_run.hpp"
#include "codelets/attention_gpu_run.hpp"
#include "codelets/cuda_test.hpp"

namespace dos::test::attention_cudnn_cuda_test {
namespace {

using namespace codelets;

class CudnnKernel : public CudaKernel {
 protected:
  void SetUp() override {
    CudaKernel::SetUp();
    if (IsSkipped()) return;
    if (!load_cudnn().empty()) GTEST_SKIP() << "no cuDNN: " << load_cudnn();
    if (cuda_capability() < 90) GTEST_SKIP() << "cuDNN is for compute capability 9.0 and later";
  }
};

void expect_taken(const CudnnStart& start) {
  ASSERT_TRUE(start.taken);
  expect_done(start.fault);
}

void run_forward(const CudaContext& context, AttentionData& data) {
  run_attention_forward(data, [&](const auto&... arrays) {
    expect_taken(attention_forward_cudnn(context, arrays...));
  });
}

void run_backward(const CudaContext& context, AttentionData& data) {
  run_attention_backward(data, [&](const auto&... arrays) {
    expect_taken(attention_backward_cudnn(context, arrays...));
  });
}

void run_with(const CudaContext& context, AttentionData& data) {
  run_forward(context, data);
  run_backward(context, data);
}

void run_on_gpu(AttentionData& data) {
  run_with(cuda_context(), data);
}

constexpr AttentionShape kShapes[] = {
    {1, 64, 1, 64},           {2, 200, 3, 64},      {1, 513, 2, 64},    {1, 97, 1, 128},
    {1, 300, 2, 96},          {1, 63, 1, 80},       {2, 200, 8, 64, 2}, {1, 300, 6, 80, 3, 70},
    {1, 513, 4, 128, 1, 128}, {2, 129, 2, 24, 1, 1}};

TEST_F(CudnnKernel, AttentionMatchesTheReference) {
  for (const AttentionShape& s : kShapes) expect_attention(&run_on_gpu, s, DType::kBF16, 0);
}

TEST_F(CudnnKernel, AttentionHasTheSameBitsEveryTime) {
  for (const AttentionShape& s : {AttentionShape{2, 1000, 4, 64}, {1, 1024, 8, 128, 2}}) {
    AttentionData first(s, DType::kBF16, 0);
    run_on_gpu(first);
    for (int run = 0; run < 3; ++run) {
      AttentionData again(s, DType::kBF16, 0);
      run_on_gpu(again);
      EXPECT_EQ(again.out.values(), first.out.values());
      EXPECT_EQ(again.dqkv.values(), first.dqkv.values());
    }
  }
}

// Some heads of a sequence at a time, some sequences at a time.
TEST_F(CudnnKernel, AttentionGoesOnWithALittleWorkspace) {
  const AttentionShape s{5, 200, 6, 64, 3};
  for (const Index heads : {2, 5, 12}) {
    CudaContext context = cuda_context();
    context.workspace_bytes = heads * cudnn_bytes_of_head(s) + 4096;
    expect_attention([&](AttentionData& data) { run_with(context, data); }, s, DType::kBF16, 0);
  }
  CudaContext context = cuda_context();
  context.workspace_bytes = cudnn_bytes_of_head(s);
  AttentionData data(s, DType::kBF16, 0);
  EXPECT_FALSE(attention_backward_cudnn(context, DType::kBF16, s, nullptr, nullptr, nullptr,
                                        nullptr, nullptr)
                   .taken);
}

TEST_F(CudnnKernel, AttentionIsThatOfBatchedProducts) {
  for (const AttentionShape& s :
       {AttentionShape{2, 129, 3, 64}, {1, 257, 2, 128}, {1, 1024, 1, 64}})
    expect_same_attention(&run_on_gpu, &run_batched, s, DType::kBF16);
}

TEST_F(CudnnKernel, AttentionAndBatchedProductsTakeWhatTheOtherLeft) {
  const AttentionShape s{2, 97, 2, 40};
  expect_attention(
      [](AttentionData& data) {
        run_forward(cuda_context(), data);
        run_batched_backward(data);
      },
      s, DType::kBF16, 0);
  expect_attention(
      [](AttentionData& data) {
        run_batched_forward(data);
        run_backward(cuda_context(), data);
      },
      s, DType::kBF16, 0);
}

}  // namespace
}  // namespace dos::test::attention_cudnn_cuda_test
