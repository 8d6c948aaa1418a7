// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "codelets/update/update_sums.hpp"

namespace dos::offload {

/// What a file of a subgroup's buffers looks like: a header, and behind it the memory of its slot,
/// in pieces that have sums.
struct StateForm {
  Index header_bytes = 0;            ///< a multiple of every alignment
  std::vector<Index> piece_bytes{};  ///< side by side, from the slot's first byte to its last
};

/// Of each piece of the memory of a slot; the first `looked_at` bytes are FP32 elements that are
/// looked at. Pre: the form is of so much memory.
std::vector<codelets::ContentSum> sums_of(const StateForm& form, std::span<const std::byte> memory,
                                          Index looked_at);

/// "", or the first piece with another sum: "CRC-32C 1234abcd instead of 00000000 at byte 4096".
std::string difference(const StateForm& form, std::span<const codelets::ContentSum> sums,
                       std::span<const std::byte> memory);

}  // namespace dos::offload
