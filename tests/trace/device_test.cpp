// SPDX-License-Identifier: Apache-2.0
// Copies and memory of a device that has its own: PoCL where there is no GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "rt/device.hpp"
#include "scratch_directory.hpp"
#include "trace/recorder.hpp"
#include "trace/trace.hpp"

namespace dos::trace::device_test {
namespace {

class DeviceTrace : public ::testing::Test {
 protected:
  void SetUp() override {
    // Before StarPU starts; it takes PoCL's device only then.
    ::setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
    // Small enough for buffers to have each other's memory one after the other.
    ::setenv("STARPU_LIMIT_OPENCL_MEM", "1", 1);
    if (!rt::has_opencl()) GTEST_SKIP() << "this StarPU was built without OpenCL";
    rt::SessionConfig config;
    config.scheduler = "eager";
    config.cpu_workers = 1;
    config.opencl_workers = 1;
    session_.emplace(config);
    if (rt::devices().empty()) GTEST_SKIP() << "no OpenCL device";
  }

  void TearDown() override { ::unsetenv("STARPU_LIMIT_OPENCL_MEM"); }

  std::optional<rt::Session> session_;
};

TEST_F(DeviceTrace, EveryCopyIsThereUnderItsOwnName) {
  constexpr Index kBuffers = 6;
  constexpr Index kCount = 100'000;  // 2 of them fit
  const test::ScratchDirectory scratch;
  const int node = rt::devices().front().node;
  {
    RecorderOptions options;
    options.folder = scratch / "trace";
    Recorder recorder(*session_, options, {});
    std::vector<std::unique_ptr<rt::Handle>> handles;
    for (Index i = 0; i < kBuffers; ++i)
      handles.push_back(std::make_unique<rt::Handle>(
          *session_, rt::HandleSpec{.name = "buffer" + std::to_string(i),
                                    .type = DType::kF32,
                                    .count = kCount,
                                    .category = i % 2 == 0 ? MemoryCategory::kStates
                                                           : MemoryCategory::kGradients}));
    for (Index round = 0; round < 2; ++round)
      for (const auto& handle : handles) {
        rt::fetch(*handle, node, rt::Mode::kReadWrite);
        recorder.end_step(round + 1);
        rt::fetch(*handle, rt::kHostNode, rt::Mode::kReadWrite);
      }
    recorder.finish();
  }
  const Trace trace = read_trace(scratch / "trace");
  std::map<std::pair<std::string, Index>, Index> copies;
  for (const Transfer& copy : trace.transfers) {
    EXPECT_EQ(copy.bytes, 4 * kCount);
    EXPECT_GE(copy.end, copy.start);
    const bool even = (copy.buffer.back() - '0') % 2 == 0;
    EXPECT_EQ(copy.category, even ? "optimizer states" : "gradients") << copy.buffer;
    ++copies[{copy.buffer, copy.to}];
  }
  for (Index i = 0; i < kBuffers; ++i)
    for (const Index to : {Index{0}, Index{node}})
      EXPECT_EQ((copies[{"buffer" + std::to_string(i), to}]), 2) << i << " to " << to;
  Index most = 0;
  std::map<double, Index> in_use;
  for (const Memory& row : trace.memory)
    if (row.node == node && row.step > 0) most = std::max(most, in_use[row.time] += row.bytes);
  EXPECT_GE(most, 4 * kCount) << "one buffer was there at least";
  EXPECT_LE(most, Index{1} << 20) << "and never more than the limit";
}

}  // namespace
}  // namespace dos::trace::device_test
