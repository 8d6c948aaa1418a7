// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/update/update.hpp"

namespace dos::test {

/// CUDA devices of this machine; 0 without a driver.
int cuda_devices();

/// Copies arrays from host memory to the first device, `shift` elements away from the alignment of
/// its allocator, runs the update there and copies them back. Returns null or what went wrong.
/// `states` is the rule's number of states.
const char* update_on_gpu(const codelets::UpdateKind& kind, const codelets::StepBytes& step,
                          const codelets::UpdateArrays& host, Index states, Index shift);

}  // namespace dos::test
