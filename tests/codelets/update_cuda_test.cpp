// SPDX-License-Identifier: Apache-2.0
// The updates on an NVIDIA GPU, as codelets of a StarPU with CUDA.
#include <gtest/gtest.h>

#include "codelets/cuda/compiled.hpp"
#include "codelets/update/update_codelet.hpp"
#include "codelets/update_device.hpp"
#include "rt/cuda.hpp"

namespace dos::test::update_cuda_test {
namespace {

TEST(UpdateCuda, CodeletsConform) {
  if (!codelets::kHasCudaKernels) GTEST_SKIP() << "built without nvcc";
  if (!rt::has_cuda()) GTEST_SKIP() << "this StarPU was built without CUDA";
  if (rt::cuda_bus_ids().empty()) GTEST_SKIP() << "no CUDA device";
  rt::Session session({.scheduler = "", .cpu_workers = 0, .cuda_workers = 1});
  rt::Submitter submitter(session);
  for (const codelets::UpdateKind& kind : update_kinds()) {
    SCOPED_TRACE(name_of(kind));
    expect_conforming({.name = "CUDA worker",
                       .arithmetic = {},
                       .update = [&](UpdateData& data) { update_as_task(submitter, data); }},
                      kind);
  }
}

}  // namespace
}  // namespace dos::test::update_cuda_test
