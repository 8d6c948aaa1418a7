// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cuda/compiled.hpp"
#include "codelets/update/update.hpp"

struct CUstream_st;

namespace dos::codelets {

/// Starts the update (UpdateKernel in update.hpp) of arrays in device memory on `stream`, without
/// waiting for it. Returns null, or what CUDA says went wrong. Exists only if kHasCudaKernels.
const char* update_cuda(const UpdateKind& kind, const StepBytes& step, const UpdateArrays& arrays,
                        CUstream_st* stream);

}  // namespace dos::codelets
