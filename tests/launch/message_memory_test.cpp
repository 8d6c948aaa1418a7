// SPDX-License-Identifier: Apache-2.0
#include "launch/message_memory.hpp"

#include <gmock/gmock.h>

namespace dos::launch::message_memory_test {
namespace {

using testing::HasSubstr;

const rt::Device kGpu{"CUDA 0", /*worker=*/3, /*node=*/1, /*is_cuda=*/true, {}};
const rt::Device kSecond{"CUDA 1", /*worker=*/4, /*node=*/2, /*is_cuda=*/true, {}};
const rt::Device kOpencl{"OpenCL 0", /*worker=*/5, /*node=*/3, /*is_cuda=*/false, {}};

TEST(MessageMemory, IsThatOfTheOnlyGpuWhereMpiKnowsIt) {
  const MessageMemory memory = choose_message_memory("auto", true, {kOpencl, kGpu});
  ASSERT_TRUE(memory.gpu);
  EXPECT_EQ(memory.gpu->node, kGpu.node);
  EXPECT_EQ(memory.gpu->worker, kGpu.worker);
  EXPECT_THAT(memory.words, HasSubstr("CUDA 0"));
}

TEST(MessageMemory, IsTheHostsOtherwiseAndSaysWhy) {
  const auto words = [](const char* setting, bool knows, const std::vector<rt::Device>& devices) {
    const MessageMemory memory = choose_message_memory(setting, knows, devices);
    EXPECT_FALSE(memory.gpu);
    EXPECT_THAT(memory.words, HasSubstr("host memory"));
    return memory.words;
  };
  EXPECT_THAT(words("auto", true, {}), HasSubstr("no GPU"));
  EXPECT_THAT(words("auto", true, {kOpencl}), HasSubstr("no GPU"));
  EXPECT_THAT(words("auto", false, {kGpu}), HasSubstr("does not know GPUs"));
  EXPECT_THAT(words("auto", true, {kGpu, kSecond}), HasSubstr("several GPUs"));
  EXPECT_THAT(words("off", true, {kGpu}), HasSubstr("dist.gpu_messages = off"));
}

}  // namespace
}  // namespace dos::launch::message_memory_test
