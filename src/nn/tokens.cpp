// SPDX-License-Identifier: Apache-2.0
#include "nn/tokens.hpp"

#include "nn/urgency.hpp"

namespace dos::nn {

void load_tokens(rt::Submitter& submitter, std::span<const std::int32_t> values,
                 const rt::Handle& tokens) {
  codelets::submit_load_tokens(submitter, values, tokens,
                               {.priority = 2 * kPathPriority, .label = "tokens"});
}

}  // namespace dos::nn
