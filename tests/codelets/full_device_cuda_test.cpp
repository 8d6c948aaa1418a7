// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "codelets/init/init_codelet.hpp"
#include "rt/submitter.hpp"

namespace dos::test::full_device_cuda_test {
namespace {

void nothing(const rt::TaskView& /*task*/) {}

/// What StarPU does on the worker's thread when a device is full.
void ask_in_vain(const rt::TaskView& /*task*/, rt::CudaStream /*stream*/) {
  void* memory = nullptr;
  expect(cudaMalloc(&memory, std::size_t{1} << 60U) == cudaErrorMemoryAllocation,
         "a device has no 2^60 bytes");
}

TEST(FullDeviceCuda, AnAllocationInVainIsNoFaultOfTheNextKernel) {
  if (rt::cuda_bus_ids().empty()) GTEST_SKIP() << "no CUDA device";
  static const rt::Codelet codelet = rt::make_codelet<nothing, nullptr, ask_in_vain>(
      {.symbol = "dos.test_full_device.v1", .modes = {rt::Mode::kReadWrite}, .tail = {}});
  rt::Session session({.scheduler = "", .cpu_workers = 0, .cuda_workers = 1});
  const rt::Handle handle(session, {.name = "numbers", .count = 100});
  rt::Submitter submitter(session);
  const std::array<const rt::Handle*, 1> buffers{&handle};
  submitter.submit(codelet, buffers, Index{0}, {}, {});
  codelets::submit<codelets::Fill>(submitter, {.out = handle}, {{0, handle.count()}, 3}, {});
  session.wait_all();
  const rt::HostAccess access(handle, rt::Mode::kRead);
  for (const float number : access.as<const float>()) EXPECT_EQ(number, 3);
}

}  // namespace
}  // namespace dos::test::full_device_cuda_test
