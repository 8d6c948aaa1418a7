// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "codelets/operation.hpp"

namespace dos::codelets {

/// Copies its payload, as many tokens as the buffer holds. Use submit_load_tokens().
struct LoadTokens : Operation {
  static constexpr Symbol kSymbol{"load_tokens", 1, DType::kI32};
  template <class As>
  struct Buffers {
    Writes<As, std::int32_t> tokens;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    return work_of(0, b.tokens.count());
  }
  template <simd::Isa>
  static void cpu(const auto& task) {
    std::memcpy(task.tokens.data(), task.payload.data(), task.payload.size());
  }
};

/// Copies the values into an I32 buffer of the same count. They travel inside the task, so that the
/// buffer of the previous batch may still be in use when this is called.
inline void submit_load_tokens(rt::Submitter& submitter, std::span<const std::int32_t> values,
                               const rt::Handle& tokens, const rt::TaskOptions& options) {
  require(std::ssize(values) == tokens.count(), "as many tokens as the buffer holds");
  submit<LoadTokens>(submitter, {.tokens = tokens}, {}, options, std::as_bytes(values));
}

}  // namespace dos::codelets
