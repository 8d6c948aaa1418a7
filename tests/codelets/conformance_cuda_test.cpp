// SPDX-License-Identifier: Apache-2.0
// Every codelet with a CUDA function on a CUDA worker: buffers in the GPU's memory, moved by
// StarPU.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "codelets/all.hpp"
#include "codelets/conformance/cases.hpp"
#include "codelets/cuda/compiled.hpp"
#include "platform/blas.hpp"
#include "rt/cuda.hpp"

namespace dos::test::conformance_cuda_test {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// Why no codelet has a CUDA function, "" where they have.
std::string missing_functions() {
  if (!codelets::kHasCudaKernels) return "built without nvcc";
  return codelets::kRunsCudaKernels ? "" : "this StarPU was built without CUDA";
}

TEST(ConformanceCuda, OnlyTokensAndMessagesStayOnTheHost) {
  if (const std::string reason = missing_functions(); !reason.empty()) GTEST_SKIP() << reason;
  std::vector<std::string> on_host;
  for (const rt::Codelet* codelet : codelets::all_codelets())
    if (!codelet->runs_on_cuda()) on_host.emplace_back(codelet->symbol());
  EXPECT_THAT(on_host, UnorderedElementsAre("dos.load_tokens.i32.v1", "dos.pack.f64.v1",
                                            "dos.unpack.f64.v1", "dos.take_gradient.f32.v1",
                                            "dos.take_gradient.bf16.v1", "dos.add_gradient.f32.v1",
                                            "dos.add_gradient.bf16.v1", "dos.tell_factor.f32.v1"));
}

TEST(ConformanceCuda, CodeletsTouchWhatTheySay) {
  if (const std::string reason = missing_functions(); !reason.empty()) GTEST_SKIP() << reason;
  if (rt::cuda_bus_ids().empty()) GTEST_SKIP() << "no CUDA device";
  // Of the kernels that the results are compared with.
  platform::blas::use_one_thread();
  // One for all cases: it takes seconds to start. Without CPU workers every task runs on the GPU.
  rt::Session session({.scheduler = "", .cpu_workers = 0, .cuda_workers = 1});
  for (const Case& c : all_cases())
    if (c.codelet->runs_on_cuda()) {
      EXPECT_THAT(complaints_on_device(c, session), IsEmpty()) << c.name;
    }
}

}  // namespace
}  // namespace dos::test::conformance_cuda_test
