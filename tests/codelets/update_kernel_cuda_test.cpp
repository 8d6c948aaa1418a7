// SPDX-License-Identifier: Apache-2.0
// The update kernels on an NVIDIA GPU, called directly.
#include <deque>

#include "codelets/cuda_test.hpp"
#include "codelets/update/update.hpp"
#include "codelets/update_suite.hpp"
#include "sanitized.hpp"

namespace dos::test::update_kernel_cuda_test {
namespace {

/// Runs the update of `host` on the device, its arrays `shift` elements away from the allocator's
/// alignment, and brings them back.
void run_on_device(const UpdateData& data, const codelets::UpdateArrays& host, Index shift) {
  const Index n = host.count;
  const auto there = [&](const void* array, Index size) {
    return OnGpu(array, n * size, shift * size);
  };
  constexpr Index kSize = sizeof(float);
  const OnGpu clip(host.clip, kSize);
  const OnGpu g = there(host.g, size_of(data.kind.gradient));
  const OnGpu p = there(host.p, kSize);
  std::deque<OnGpu> states;
  std::deque<OnGpu> old;
  codelets::UpdateArrays device{.count = n,
                                .clip = clip.as<const float>(),
                                .g = g.get(),
                                .p = p.as<float>(),
                                .states = {},
                                .w = nullptr};
  if (!host.in_place()) {
    old.emplace_back(host.old_p, n * kSize, shift * kSize);
    device.old_p = old.back().as<float>();
  }
  for (std::size_t s = 0; s < data.states.size(); ++s) {
    states.emplace_back(host.states[s], n * kSize, shift * kSize);
    device.states[s] = states.back().as<float>();
    if (host.in_place()) continue;
    old.emplace_back(host.old_states[s], n * kSize, shift * kSize);
    device.old_states[s] = old.back().as<float>();
  }
  const OnGpu w = there(host.w, host.w == nullptr ? 0 : Index{sizeof(BF16)});
  if (host.w != nullptr) device.w = w.as<BF16>();
  expect_done(codelets::update_cuda(cuda_context(), data.kind, data.step, device));
  p.copy_to(host.p);
  for (std::size_t s = 0; s < states.size(); ++s) states[s].copy_to(host.states[s]);
  if (host.w != nullptr) w.copy_to(host.w);
}

void update_on_device(UpdateData& data, Index shift, bool in_place) {
  if (in_place)
    run_on_device(data, data.arrays(), shift);
  else
    update_apart(data,
                 [&](const codelets::UpdateArrays& arrays) { run_on_device(data, arrays, shift); });
}

/// Nothing is contracted on either, and both round correctly: no bit differs.
void expect_bits_of_portable(const codelets::UpdateKind& kind, Index shift, bool in_place) {
#if defined(__x86_64__)
  std::vector<UpdateData> on_cpu = update_inputs(kind);
  std::vector<UpdateData> on_gpu = update_inputs(kind);
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    codelets::update_cpu<simd::Isa::kPortable>(kind)(on_cpu[i].step.bytes, on_cpu[i].arrays());
    update_on_device(on_gpu[i], shift, in_place);
    EXPECT_TRUE(same_results(on_cpu[i], on_gpu[i])) << "input " << i;
  }
#endif
}

void expect_all_kinds(bool in_place) {
  int number = 0;
  for (const codelets::UpdateKind& kind : update_kinds())
    for (const Index shift : {0, 1}) {
      if (!tries(number++, 5)) continue;
      SCOPED_TRACE(name_of(kind) + " shifted by " + std::to_string(shift));
      expect_conforming(
          {.name = "CUDA",
           .arithmetic = {},
           .update = [&](UpdateData& data) { update_on_device(data, shift, in_place); }},
          kind);
      expect_bits_of_portable(kind, shift, in_place);
    }
}

TEST_F(CudaKernel, UpdatesConformAlignedAndNot) {
  expect_all_kinds(/*in_place=*/true);
}

TEST_F(CudaKernel, UpdatesApartConformAlignedAndNot) {
  expect_all_kinds(/*in_place=*/false);
}

}  // namespace
}  // namespace dos::test::update_kernel_cuda_test
