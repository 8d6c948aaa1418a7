// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "base/types.hpp"

namespace dos::test {

/// `size` bytes that differ from those of another `salt` and from their neighbours.
inline std::vector<std::byte> byte_pattern(Index size, Index salt) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 37 + static_cast<std::size_t>(salt) * 101 + 1) & 0xFF);
  return bytes;
}

}  // namespace dos::test
