// SPDX-License-Identifier: Apache-2.0
#include "codelets/simd/isa.hpp"

namespace dos::simd {
namespace {

bool processor_runs(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi2");
    case Isa::kPortable:
      return true;
  }
#endif
  return isa == Isa::kPortable;
}

Isa best_isa() {
  if (is_usable(Isa::kAvx512)) return Isa::kAvx512;
  return is_usable(Isa::kAvx2) ? Isa::kAvx2 : Isa::kPortable;
}

}  // namespace

Isa active_isa() {
  static const Isa isa = best_isa();
  return isa;
}

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kPortable:
      return "portable";
  }
  return "?";
}

bool is_usable(Isa isa) {
  const bool compiled = isa == Isa::kPortable || (isa == Isa::kAvx2 && kHasAvx2) ||
                        (isa == Isa::kAvx512 && kHasAvx512);
  return compiled && processor_runs(isa);
}

}  // namespace dos::simd
