// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

#include "codelets/update/update_sums.hpp"

namespace dos::codelets {

template <>
bool all_finite_cpu<simd::Isa::DOS_ISA>(const float* elements, Index count) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  std::uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
  for (Index i = 0; i < count; ++i) {
    const auto bits = __builtin_bit_cast(std::uint32_t, elements[i]);
    bad |= static_cast<std::uint32_t>((bits & kExponent) == kExponent);
  }
  return bad == 0;
}

}  // namespace dos::codelets
