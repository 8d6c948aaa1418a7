// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace dos {

/// Every size, count and offset of the project: signed, 64 bits, so that arithmetic cannot wrap.
using Index = std::int64_t;

/// ceil(a / b) for a >= 0, b > 0.
constexpr Index ceil_div(Index a, Index b) {
  return (a + b - 1) / b;
}

/// Element types of buffers and files.
enum class DType : std::uint8_t { kF32, kF64, kBF16, kI32, kU8 };

/// Bytes of one element.
constexpr Index size_of(DType type) {
  switch (type) {
    case DType::kF64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

/// Name as written in codelet symbols and messages: f32, f64, bf16, i32, u8.
constexpr const char* name_of(DType type) {
  switch (type) {
    case DType::kF64:
      return "f64";
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kI32:
      return "i32";
    case DType::kU8:
      return "u8";
  }
  return "?";
}

}  // namespace dos
