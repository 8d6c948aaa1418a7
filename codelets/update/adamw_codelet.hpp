// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/update/adamw.hpp"
#include "rt/submitter.hpp"

namespace dos::codelets {

const rt::Codelet& adamw_codelet();

/// Buffers of one subgroup's update, all of the subgroup's size but `clip` (one FP32 factor).
struct UpdateBuffers {
  const rt::Handle& parameters;
  const rt::Handle& first_moment;
  const rt::Handle& second_moment;
  const rt::Handle& gradient;
  const rt::Handle& clip;
};

/// Updates parameters and both moments in place (adamw.hpp).
void submit_adamw(rt::Submitter& submitter, const AdamWStep& step, const UpdateBuffers& buffers,
                  const rt::TaskOptions& options);

}  // namespace dos::codelets
