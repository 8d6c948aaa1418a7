// SPDX-License-Identifier: Apache-2.0
#include "platform/blas.hpp"

#include <cblas.h>
#include <unistd.h>

#include <cstdlib>

namespace dos::platform::blas {
namespace {

constexpr const char* kCoreTypeVariable = "OPENBLAS_CORETYPE";

bool processor_has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

}  // namespace

std::string description() {
  return openblas_get_config();
}

std::string core_type() {
  return openblas_get_corename();
}

void use_one_thread() {
  openblas_set_num_threads(1);
}

void restart_with_better_kernels(char** argv) {
  const std::string core = core_type();
  const bool bad_choice = processor_has_avx512() && (core == "Haswell" || core == "Zen");
  if (!bad_choice || std::getenv(kCoreTypeVariable) != nullptr) return;
  if (::setenv(kCoreTypeVariable, "SkylakeX", 1) != 0) return;
  ::execv("/proc/self/exe", argv);
  ::unsetenv(kCoreTypeVariable);
}

}  // namespace dos::platform::blas
