// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace dos::test {

/// One input of a fuzz target, which each of them defines. Throws Error of one line for what it
/// refuses; anything else that it throws, and broken(), is a defect.
void fuzz(std::span<const std::byte> bytes);

/// Runs fuzz(): whether it takes the input. A refusal of more than one line is broken().
bool accepts(std::span<const std::byte> bytes);

/// Ends the program: a promise was not kept.
[[noreturn]] void broken(const char* promise);

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace dos::test
