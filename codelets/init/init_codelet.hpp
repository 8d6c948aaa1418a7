// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/init/init.hpp"
#include "rt/submitter.hpp"

namespace dos::codelets {

const rt::Codelet& fill_codelet();
const rt::Codelet& init_normal_codelet();
const rt::Codelet& round_codelet();

/// Elements offset .. offset + count - 1 of a handle.
struct HandleRange {
  Index offset;
  Index count;
};

/// handle[range] = value; the other elements stay.
void submit_fill(rt::Submitter& submitter, const rt::Handle& handle, const HandleRange& range,
                 float value, const rt::TaskOptions& options);

/// handle[range] = N(0, deviation^2) by counter (init.hpp); the other elements stay.
void submit_init_normal(rt::Submitter& submitter, const rt::Handle& handle,
                        const HandleRange& range, const NormalInit& init,
                        const rt::TaskOptions& options);

/// out (BF16) = x (FP32) rounded to nearest even: the working parameters of a subgroup.
void submit_round(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& out,
                  const rt::TaskOptions& options);

}  // namespace dos::codelets
