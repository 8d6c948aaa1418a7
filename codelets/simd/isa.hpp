// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/simd/compiled.hpp"

namespace dos::simd {

/// The best instruction set that this binary holds and this processor runs.
Isa active_isa();

/// Name for logs: portable, avx2, avx512.
const char* name_of(Isa isa);

/// True when this binary holds kernels for `isa` and this processor runs them.
bool is_usable(Isa isa);

/// Returns f.template operator()<isa>() for the given instruction set. CPU kernels are function
/// templates over Isa; each `*_cpu.cpp` is compiled once per instruction set and defines the
/// matching one.
template <class F>
auto dispatch(Isa isa, F&& f) {
  if constexpr (kHasAvx512) {
    if (isa == Isa::kAvx512) return f.template operator()<Isa::kAvx512>();
  }
  if constexpr (kHasAvx2) {
    if (isa == Isa::kAvx2) return f.template operator()<Isa::kAvx2>();
  }
  return f.template operator()<Isa::kPortable>();
}

/// dispatch() to the best instruction set.
template <class F>
auto dispatch(F&& f) {
  return dispatch(active_isa(), f);
}

}  // namespace dos::simd
