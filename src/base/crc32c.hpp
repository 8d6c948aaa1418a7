// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dos {

/// The CRC-32C (Castagnoli; RFC 3720, appendix B.4) of bytes, by the processor's instructions where
/// it has them. `before`: that of the bytes in front of them, to go on with.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace dos
