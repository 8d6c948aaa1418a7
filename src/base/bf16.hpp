// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

namespace dos {

/// The upper half of an FP32 number: its sign, exponent and 7 bits of fraction.
struct BF16 {
  std::uint16_t bits;

  bool operator==(const BF16&) const = default;
};

// OpenCL C begins. cmake/EmbedOpencl.cmake hands these lines to OpenCL devices as they stand.
/// The BF16 number nearest to an FP32 number, ties to even, both as their bits. Too large ones
/// become infinite; NaN stays NaN (quiet, with its sign).
DOS_HD static unsigned short round_to_bf16(unsigned int fp32) {
  // Vector units compare signed integers in one instruction; AVX2 has no other comparison.
  const int is_nan = (int)(fp32 & 0x7FFFFFFFU) > 0x7F800000;
  const unsigned int to_nearest = 0x7FFFU + ((fp32 >> 16U) & 1U);
  return (unsigned short)(((fp32 + (is_nan ? 0U : to_nearest)) | (is_nan ? 0x400000U : 0U)) >> 16U);
}
// OpenCL C ends.

DOS_HD static BF16 to_bf16(float value) {
  return {round_to_bf16(__builtin_bit_cast(std::uint32_t, value))};
}

DOS_HD static float to_float(BF16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16U);
}
DOS_HD static float to_float(float value) {
  return value;
}

}  // namespace dos
