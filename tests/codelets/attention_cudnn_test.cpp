// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN without a GPU: what is chosen, what it is given, and cuDNN's own word on
// whether it has plans. cuDNN makes them for a GPU that is described to it, beside a driver that
// does nothing (cuda_driver_double.cpp).
#include "codelets/attention/attention_cudnn.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "codelets/attention/attention_cudnn_plan.hpp"
#include "message_of.hpp"

namespace dos::test::attention_cudnn_test {
namespace {

using namespace codelets;
using testing::HasSubstr;

class AttentionByCudnn : public testing::Test {
 protected:
  ~AttentionByCudnn() override { choose_attention("own", 0); }
};

TEST_F(AttentionByCudnn, IsNotChosenUnlessItIsAskedFor) {
  EXPECT_FALSE(cudnn_is_chosen());
  EXPECT_EQ(gpu_attention(), "own kernels");
}

// The rule of `auto`: the least capability of the GPUs at hand.
TEST_F(AttentionByCudnn, IsNotChosenByItselfForOlderGpus) {
  for (const int capability : {0, 80, 89}) {
    choose_attention("auto", capability);
    EXPECT_FALSE(cudnn_is_chosen()) << capability;
  }
}

TEST_F(AttentionByCudnn, RefusesOtherNames) {
  EXPECT_THAT(message_of<Error>([] { choose_attention("flash", 90); }),
              HasSubstr("attention by 'flash': must be auto, own or cudnn"));
}

TEST_F(AttentionByCudnn, IsChosenWhereItCanBeLoaded) {
  if (!load_cudnn().empty()) {
    choose_attention("auto", 90);
    EXPECT_FALSE(cudnn_is_chosen());
    EXPECT_THAT(message_of<Error>([] { choose_attention("cudnn", 90); }),
                testing::AllOf(HasSubstr("train.attention=cudnn"), HasSubstr(load_cudnn())));
    return;
  }
  choose_attention("auto", 90);
  EXPECT_TRUE(cudnn_is_chosen());
  EXPECT_THAT(gpu_attention(), testing::MatchesRegex("cuDNN 9[.][0-9]+[.][0-9]+"));
  choose_attention("cudnn", 80);
  EXPECT_TRUE(cudnn_is_chosen());
}

// 66 heads of 2048 tokens have 8 blocks of 128 rows for each of 132 processors; a head's gradients
// of scores are 2048 x 2048 in BF16.
TEST_F(AttentionByCudnn, HasRoomForTheHeadsThatKeepAGpuBusy) {
  const AttentionShape shape{1, 2048, 16, 128};
  const Index head = 2 * 2048 * 2048 + 4 * 2048;
  EXPECT_EQ(cudnn_bytes_of_head(shape), head);
  EXPECT_EQ(cudnn_workspace(shape), 66 * head + (64 << 10));
  EXPECT_EQ(cudnn_heads_together({8, 2048, 16, 128}, cudnn_workspace(shape)), 66);
  EXPECT_EQ(cudnn_heads_together(shape, 9 * head), 8);
  EXPECT_EQ(cudnn_heads_together(shape, Index{1} << 40), 16);
}

// Gradients of keys and values for each head of queries: 2 x 2 x 4096 x 128 bytes more.
TEST_F(AttentionByCudnn, HasWholeGroupsOfHeads) {
  const AttentionShape shape{1, 4096, 32, 128, 8};
  const Index head = 2 * 4096 * 4096 + 4 * 4096 + 4 * 4096 * 128;
  EXPECT_EQ(cudnn_bytes_of_head(shape), head);
  EXPECT_EQ(cudnn_workspace(shape), 16 * head + (64 << 10));
  EXPECT_EQ(cudnn_heads_together(shape, 7 * head + 4096), 4);
  EXPECT_EQ(cudnn_heads_together(shape, 3 * head + 4096), 0);
}

TEST_F(AttentionByCudnn, HasNoRoomForTheLongestSequences) {
  EXPECT_GT(cudnn_workspace({1, 8192, 32, 128}), 0);
  EXPECT_LE(cudnn_workspace({1, 8192, 32, 128}), kMostCudnnWorkspace);
  EXPECT_EQ(cudnn_workspace({1, 32768, 32, 128}), 0);
  EXPECT_EQ(cudnn_workspace({1, 0, 4, 64}), 0);
}

// Nothing of this needs cuDNN, and nothing is started.
TEST_F(AttentionByCudnn, DoesNotTakeWhatItWasNotMadeFor) {
  std::shared_ptr<void> kept;
  CudaContext context{};
  context.kept = &kept;
  alignas(16) char array[32] = {};
  float statistics[4] = {};
  const auto taken = [&](DType type, const AttentionShape& shape, char* qkv) {
    return attention_forward_cudnn(context, type, shape, qkv, array, statistics).taken ||
           attention_backward_cudnn(context, type, shape, qkv, array, statistics, array, array)
               .taken;
  };
  EXPECT_FALSE(taken(DType::kF32, {1, 4, 1, 8}, array));
  EXPECT_FALSE(taken(DType::kBF16, {1, 4, 1, 12}, array));
  EXPECT_FALSE(taken(DType::kBF16, {1, 0, 1, 8}, array));
  EXPECT_FALSE(taken(DType::kBF16, {1, 4, 1, 8, 0, 0, 2}, array));
  EXPECT_FALSE(taken(DType::kBF16, {1, 4, 1, 8}, array + 2));
  EXPECT_EQ(kept, nullptr);
}

// No GPU is here, so that there is no cuDNN for it either: what is chosen is not what computes.
TEST_F(AttentionByCudnn, SaysWhyOwnKernelsComputeWhatItWasChosenFor) {
  choose_attention("auto", 90);
  EXPECT_EQ(attention_refusals(), "");
  std::shared_ptr<void> kept;
  CudaContext context{};
  context.kept = &kept;
  alignas(16) char array[64] = {};
  float statistics[4] = {};
  const auto forward = [&](const AttentionShape& shape) {
    return attention_forward_cudnn(context, DType::kBF16, shape, array, array, statistics).taken;
  };
  EXPECT_FALSE(forward({1, 4, 1, 12}));
  EXPECT_EQ(attention_refusals(), "forward: heads of 12 elements, no multiple of 8");
  EXPECT_FALSE(forward({1, 4, 1, 8}));
  EXPECT_EQ(attention_refusals(), "forward: heads of 12 elements, no multiple of 8");
  EXPECT_FALSE(attention_backward_cudnn(context, DType::kBF16, {1, 4, 1, 8}, array, array,
                                        statistics, array, array)
                   .taken);
  const std::string why = load_cudnn().empty() ? "no handle of the GPU: " : load_cudnn();
  EXPECT_THAT(attention_refusals(), HasSubstr("; backward: " + why));
  if (cudnn_is_chosen()) {
    EXPECT_THAT(gpu_attention(), HasSubstr(", but by own kernels forward: heads of 12"));
  }
  choose_attention("own", 0);
  EXPECT_EQ(attention_refusals(), "");
}

// So that the record of a run, which is written before the first step, has it.
TEST_F(AttentionByCudnn, SaysSoBeforeTheFirstTask) {
  choose_attention("auto", 90);
  if (!cudnn_is_chosen()) GTEST_SKIP() << "no cuDNN: " << load_cudnn();
  std::shared_ptr<void> kept;
  CudaContext context{};
  context.kept = &kept;
  prepare_attention(context, DType::kF32, {1, 4, 1, 12});
  EXPECT_EQ(attention_refusals(), "");
  prepare_attention(context, DType::kBF16, {1, 4, 1, 12});
  EXPECT_EQ(attention_refusals(),
            "forward: heads of 12 elements, no multiple of 8; backward: heads of 12 elements, no "
            "multiple of 8");
}

/// An H100 SXM, as cuDNN describes one (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
constexpr const char* kH100 = R"({"deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900,
    "driverVer": 13000, "multiProcessorCount": 132, "totalGlobalMem": 85029158912,
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "warpSize": 32,
    "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
    "l2CacheSize": 52428800, "memoryBusWidth": 5120, "smClockRateKHz": 1980000,
    "memClockRateKHz": 2619000, "supportCoopLaunch": 1, "isTccDriver": 0, "pciDeviceId": 0,
    "cudaDeviceId": 0})";

CudnnPlan plan_of(const AttentionShape& s, bool backward, Index sequences, Index heads) {
  return {{backward, sequences, s.tokens, heads, heads / s.group(), s.head_size, s.window,
           s.qkv_width(), s.width()},
          kH100,
          90,
          132};
}

// GPT-2, LLaMA, Llama 3.1, Mistral, SmolLM2; and odd sizes.
constexpr AttentionShape kShapes[] = {
    {8, 1024, 12, 64},   {4, 2048, 32, 128}, {1, 8192, 32, 128, 8},  {1, 8192, 32, 128, 8, 4096},
    {2, 2048, 9, 64, 3}, {3, 257, 5, 80},    {2, 1000, 6, 96, 2, 70}};

TEST(PlanOfCudnn, IsThereAndFitsItsWorkspace) {
  if (!load_cudnn().empty()) GTEST_SKIP() << "no cuDNN: " << load_cudnn();
  for (const AttentionShape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.sequences << " x " << s.tokens << ", " << s.heads
                                    << " heads of " << s.head_size);
    const CudnnPlan forward = plan_of(s, false, s.sequences, s.heads);
    EXPECT_EQ(forward.obstacle(), "");
    EXPECT_LE(forward.workspace_bytes(), Index{1} << 20);
    const Index together = cudnn_heads_together(s, cudnn_workspace(s));
    ASSERT_GT(together, 0);
    const bool is_part = together < s.heads;
    const CudnnPlan backward =
        is_part ? plan_of(s, true, 1, together) : plan_of(s, true, together / s.heads, s.heads);
    EXPECT_EQ(backward.obstacle(), "");
    EXPECT_LE(backward.workspace_bytes(), cudnn_workspace(s));
    // No more is foreseen than it takes.
    const Index heads = is_part ? together : together / s.heads * s.heads;
    EXPECT_GE(backward.workspace_bytes(), heads * cudnn_bytes_of_head(s));
  }
}

// One query has no deterministic backward there.
TEST(PlanOfCudnn, SaysWhyThereIsNone) {
  if (!load_cudnn().empty()) GTEST_SKIP() << "no cuDNN: " << load_cudnn();
  const CudnnPlan plan = plan_of({1, 1, 1, 64}, true, 1, 1);
  EXPECT_THAT(plan.obstacle(), HasSubstr("not supported"));
}

}  // namespace
}  // namespace dos::test::attention_cudnn_test
