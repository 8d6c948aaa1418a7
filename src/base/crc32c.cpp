// SPDX-License-Identifier: Apache-2.0
#include "base/crc32c.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <limits>

namespace dos {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  // The library counts in int, and leaves both inversions to its callers.
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  std::uint32_t register_ = ~before;
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kMost);
    // Reads only.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    register_ = ::crc32_iscsi(data, static_cast<int>(count), register_);
    bytes = bytes.subspan(count);
  }
  return ~register_;
}

}  // namespace dos
