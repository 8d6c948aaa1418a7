// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "rt/submitter.hpp"

/// What ranks have sent, put together. Messages arrive in host memory, so these run on CPU workers.
namespace dos::codelets {

const rt::Codelet& take_gradient_codelet(DType type);
const rt::Codelet& add_gradient_codelet(DType type);
const rt::Codelet& pack_codelet();
const rt::Codelet& unpack_codelet();

/// sum (FP32) = x, or sum + x: the first sum.count() elements of x, FP32 or BF16.
void submit_take_gradient(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& sum,
                          const rt::TaskOptions& options);
void submit_add_gradient(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& sum,
                         const rt::TaskOptions& options);

/// packed[i] = scalars[i][0], all FP64; and back.
void submit_pack(rt::Submitter& submitter, std::span<const rt::Handle* const> scalars,
                 const rt::Handle& packed, const rt::TaskOptions& options);
void submit_unpack(rt::Submitter& submitter, const rt::Handle& packed,
                   std::span<const rt::Handle* const> scalars, const rt::TaskOptions& options);

}  // namespace dos::codelets
