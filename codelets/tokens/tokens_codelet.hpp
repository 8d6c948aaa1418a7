// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "rt/submitter.hpp"

namespace dos::codelets {

const rt::Codelet& load_tokens_codelet();

/// Copies the values into an I32 buffer of the same count. They travel inside the task, so that the
/// buffer of the previous batch may still be in use when this is called.
void submit_load_tokens(rt::Submitter& submitter, std::span<const std::int32_t> values,
                        const rt::Handle& tokens, const rt::TaskOptions& options);

}  // namespace dos::codelets
