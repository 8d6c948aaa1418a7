// SPDX-License-Identifier: Apache-2.0
#include "platform/blas.hpp"

#include <cblas.h>
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace dos::platform::blas::blas_test {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kOwnChoice = DOS_PRINT_CORE_TYPE;
constexpr const char* kBadChoice = DOS_PRINT_BAD_CORE_TYPE;
constexpr const char* kUnset = "env -u OPENBLAS_CORETYPE ";
constexpr const char* kHaswell = "env OPENBLAS_CORETYPE=Haswell ";

/// The lines that a shell command prints.
std::vector<std::string> lines_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::string text;
  std::array<char, 256> part{};
  while (pipe != nullptr && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) {
    text += part.data();
  }
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

TEST(Blas, SaysWhatItIs) {
  EXPECT_THAT(description(), StartsWith("OpenBLAS "));
  EXPECT_THAT(core_type(), Not(IsEmpty()));
}

TEST(Blas, UsesOneThreadOnRequest) {
  use_one_thread();
  EXPECT_EQ(openblas_get_num_threads(), 1);
}

TEST(BlasRestart, TakesKernelsThatUseTheProcessor) {
  constexpr Instructions kOld{};
  constexpr Instructions kAvx2{.avx2 = true};
  constexpr Instructions kAvx512{.avx2 = true, .avx512 = true};
  // Emerald Rapids, Zen 4, and what 0.3.21 knows.
  for (const char* chosen : {"Prescott", "Haswell", "Zen", "ZEN", "Nehalem", "Sandybridge", "Sky"})
    EXPECT_EQ(better_core_type(chosen, kAvx512), "SkylakeX") << chosen;
  for (const char* chosen : {"SkylakeX", "SKYLAKEX", "Cooperlake", "SapphireRapids"})
    EXPECT_EQ(better_core_type(chosen, kAvx512), "") << chosen;
  for (const char* chosen : {"Prescott", "Nehalem", "Sandybridge", "Bulldozer"})
    EXPECT_EQ(better_core_type(chosen, kAvx2), "Haswell") << chosen;
  for (const char* chosen : {"Haswell", "Zen", "HASWELL", "SkylakeX"})
    EXPECT_EQ(better_core_type(chosen, kAvx2), "") << chosen;
  EXPECT_EQ(better_core_type("Prescott", kOld), "");
}

TEST(BlasRestart, EndsWithKernelsThatSuitTheProcessor) {
  const auto as_is = lines_of(std::string(kUnset) + kOwnChoice + " as-is");
  const auto mended = lines_of(std::string(kUnset) + kOwnChoice);
  ASSERT_EQ(as_is.size(), 2U);
  ASSERT_EQ(mended.size(), 1U);
  RecordProperty("core_type", mended[0]);
  if (has_avx512())
    EXPECT_THAT(mended[0], Not(AnyOf("Prescott", "Haswell", "Zen")));
  else if (has_avx2())
    EXPECT_NE(mended[0], "Prescott");
  else
    EXPECT_EQ(mended[0], as_is[0]);
}

TEST(BlasRestart, RespectsTheUsersChoice) {
  const auto as_is = lines_of(std::string(kHaswell) + kOwnChoice + " as-is");
  const auto mended = lines_of(std::string(kHaswell) + kOwnChoice);
  ASSERT_EQ(as_is.size(), 2U);
  EXPECT_THAT(mended, ElementsAre(as_is[0]));
  EXPECT_THAT(lines_of(std::string(kHaswell) + kBadChoice), ElementsAre("Haswell"));
}

TEST(BlasRestart, MendsABadChoiceAndKeepsTheArguments) {
  EXPECT_THAT(lines_of(std::string(kUnset) + kBadChoice + " --lr 0.1 'two words'"),
              ElementsAre(has_avx512() ? "SkylakeX" : "Haswell", "--lr", "0.1", "two words"));
}

}  // namespace
}  // namespace dos::platform::blas::blas_test
