// SPDX-License-Identifier: Apache-2.0
#include "platform/blas.hpp"

#include <cblas.h>
#include <fcntl.h>
#include <sched.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "platform/memory_limits.hpp"

namespace dos::platform::blas {
namespace {

constexpr const char* kCoreTypeVariable = "OPENBLAS_CORETYPE";

Instructions instructions_here() {
#if defined(__x86_64__)
  return {.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
          .avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")};
#else
  return {};
#endif
}

/// Builds for one family name it in capitals.
bool is_one_of(std::string_view name, std::initializer_list<const char*> families) {
  return std::ranges::any_of(families, [&](const char* family) {
    return ::strncasecmp(family, name.data(), name.size()) == 0 &&
           std::strlen(family) == name.size();
  });
}

/// The first number of /proc/self/statm, or the sixth: pages of address space, or of data.
Index used_bytes(int field) {
  std::array<char, 256> text{};
  const int file = ::open("/proc/self/statm", O_RDONLY);
  if (file < 0) return 0;
  const ssize_t length = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  if (length <= 0) return 0;
  char* rest = text.data();
  Index pages = 0;
  for (int i = 0; i < field; ++i) pages = std::strtol(rest, &rest, 10);
  return pages * ::sysconf(_SC_PAGESIZE);
}

/// Ends the program with one line when a resource limit leaves too little.
void expect_limit(const char* program, __rlimit_resource resource, const char* name,
                  int used_field) {
  rlimit limit{};
  rlimit stack{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  constexpr rlim_t kUsualStack = rlim_t{8} << 20;
  ::getrlimit(RLIMIT_STACK, &stack);
  const rlim_t thread_stack = stack.rlim_cur == RLIM_INFINITY ? kUsualStack : stack.rlim_cur;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int threads = ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  const Index least =
      least_limit(used_bytes(used_field), threads, static_cast<Index>(thread_stack));
  if (limit.rlim_cur >= static_cast<rlim_t>(least)) return;
  std::array<char, 512> text{};
  const char* slash = std::strrchr(program, '/');
  const int length = std::snprintf(
      text.data(), text.size(),
      "%.100s: error: %s allows %lld MiB of memory, the program needs %lld MiB before its first "
      "buffer: raise the limit, or set it to unlimited\n",
      slash == nullptr ? program : slash + 1, name, static_cast<long long>(limit.rlim_cur >> 20),
      static_cast<long long>(least >> 20));
  static_cast<void>(::write(STDERR_FILENO, text.data(), static_cast<std::size_t>(length)) == 0);
  ::_exit(EXIT_FAILURE);
}

/// OpenBLAS asks for memory again and again, for ever, when a limit forbids it, from where its
/// library is initialised on. So this comes before, and uses nothing but the C library.
void expect_limits(int /*argc*/, char** argv, char** /*environment*/) {
  constexpr int kSize = 1;
  constexpr int kData = 6;
  expect_limit(argv[0], RLIMIT_AS, "ulimit -v", kSize);
  expect_limit(argv[0], RLIMIT_DATA, "ulimit -d", kData);
}

[[gnu::used, gnu::section(".preinit_array")]] void (*const at_start)(int, char**,
                                                                     char**) = expect_limits;

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

std::string_view better_core_type(std::string_view chosen, const Instructions& instructions) {
  const bool uses_avx512 = is_one_of(chosen, {"SkylakeX", "Cooperlake", "SapphireRapids"});
  if (instructions.avx512) return uses_avx512 ? "" : "SkylakeX";
  const bool uses_avx2 = uses_avx512 || is_one_of(chosen, {"Haswell", "Zen", "Excavator"});
  return instructions.avx2 && !uses_avx2 ? "Haswell" : "";
}

void restart_with_better_kernels(char** argv) {
  const std::string better(better_core_type(core_type(), instructions_here()));
  if (better.empty() || std::getenv(kCoreTypeVariable) != nullptr) return;
  if (::setenv(kCoreTypeVariable, better.c_str(), 1) != 0) return;
  ::execv("/proc/self/exe", argv);
  ::unsetenv(kCoreTypeVariable);
}

}  // namespace dos::platform::blas
