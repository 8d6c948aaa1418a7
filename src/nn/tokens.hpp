// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "codelets/tokens/tokens_codelet.hpp"

namespace dos::nn {

/// Puts a batch's tokens into an I32 buffer of the same count, when the tasks that use it are done.
void load_tokens(rt::Submitter& submitter, std::span<const std::int32_t> values,
                 const rt::Handle& tokens);

}  // namespace dos::nn
