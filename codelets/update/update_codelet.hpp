// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "codelets/update/rule_info.hpp"
#include "codelets/update/update.hpp"
#include "rt/submitter.hpp"

namespace dos::codelets {

/// Every rule with every type of gradient and working parameters.
std::vector<UpdateKind> all_update_kinds();

/// "dos.update.<rule>.<gradient>.<working>.v<N>"
const rt::Codelet& update_codelet(const UpdateKind& kind);

/// Buffers of one subgroup's update, all of the subgroup's size but `clip` (one FP32 factor).
/// Gradient and working parameters are FP32 or BF16, the others FP32.
struct UpdateBuffers {
  const rt::Handle& parameters;
  std::span<const rt::Handle* const> states;  ///< in the order of the rule
  const rt::Handle* working;                  ///< null: the parameters are the working ones
  const rt::Handle& gradient;
  const rt::Handle& clip;
};

/// Updates parameters and states in place and overwrites the working parameters (update.hpp). Does
/// nothing for an empty subgroup.
void submit_update(rt::Submitter& submitter, Index rule, const StepBytes& step,
                   const UpdateBuffers& buffers, const rt::TaskOptions& options);

}  // namespace dos::codelets
