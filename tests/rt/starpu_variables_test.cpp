// SPDX-License-Identifier: Apache-2.0
#include "rt/starpu_variables.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/scoped_environment.hpp"
#include "message_of.hpp"
#include "scratch_directory.hpp"

namespace dos::rt::starpu_variables_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kThreads = 8;

const StarpuVariable& variable(std::string_view name) {
  for (const StarpuVariable& each : starpu_variables())
    if (each.name == name) return each;
  throw std::logic_error("no such variable");
}

bool takes(std::string_view name, const std::string& value) {
  return obstacle_to_value(variable(name), value, kThreads).empty();
}

TEST(StarpuVariables, AreNamedOnce) {
  std::set<std::string_view> names;
  for (const StarpuVariable& each : starpu_variables()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_THAT(each.name, testing::StartsWith("STARPU_"));
  }
}

TEST(StarpuVariables, AllRefuseNonsense) {
  for (const StarpuVariable& each : starpu_variables()) {
    if (each.kind == VariableKind::kFile) continue;
    for (const char* value : {"", " ", "1 x", "\xFF", "\n", "1,,2", "a/b"})
      EXPECT_NE(obstacle_to_value(each, value, kThreads), "") << each.name << "=" << value;
    if (each.kind == VariableKind::kName) continue;
    for (const char* value : {"-1", "--", "nan", "inf", "1e99",
                              "99999999999999999999999999999999999999999", "0x10", "5-2"})
      EXPECT_NE(obstacle_to_value(each, value, kThreads), "") << each.name << "=" << value;
  }
}

TEST(StarpuVariables, Numbers) {
  EXPECT_TRUE(takes("STARPU_NCPU", "0"));
  EXPECT_TRUE(takes("STARPU_NCPU", "2147483647"));
  EXPECT_FALSE(takes("STARPU_NCPU", "2147483648"));
  EXPECT_TRUE(takes("STARPU_CALIBRATE", "2"));
  EXPECT_FALSE(takes("STARPU_CALIBRATE", "3"));
  EXPECT_TRUE(takes("STARPU_DISABLE_KERNELS", "0"));
  EXPECT_FALSE(takes("STARPU_DISABLE_KERNELS", "1"));
  EXPECT_TRUE(takes("STARPU_MAIN_THREAD_CPUID", "7"));
  EXPECT_FALSE(takes("STARPU_MAIN_THREAD_CPUID", "8"));
  EXPECT_TRUE(takes("STARPU_SCHED_ALPHA", "1.5"));
  EXPECT_FALSE(takes("STARPU_SCHED_ALPHA", "-0.5"));
  EXPECT_FALSE(takes("STARPU_WINDOW_TIME_SIZE", "abc"));
  EXPECT_TRUE(takes("STARPU_BACKOFF_MAX", "100000"));
  EXPECT_FALSE(takes("STARPU_BACKOFF_MAX", "100001"));
  EXPECT_TRUE(takes("STARPU_RESERVE_NCPU", "7"));
  EXPECT_FALSE(takes("STARPU_RESERVE_NCPU", "8"));
}

TEST(StarpuVariables, Lists) {
  for (const char* value : {"0", "0 7", "0,1,2", "2-5", "0 2-3,6-", "4-"})
    EXPECT_TRUE(takes("STARPU_WORKERS_CPUID", value)) << value;
  for (const char* value : {"8", "0 8", "3-8", "5-4", "0;1", "0  1", "0,", "abc", "1 abc"})
    EXPECT_FALSE(takes("STARPU_WORKERS_CPUID", value)) << value;
  EXPECT_TRUE(takes("STARPU_WORKERS_CUDAID", "3 1"));
  EXPECT_FALSE(takes("STARPU_WORKERS_CUDAID", "1-3"));
}

TEST(StarpuVariables, Names) {
  EXPECT_TRUE(takes("STARPU_HOSTNAME", "node-7.cluster"));
  EXPECT_FALSE(takes("STARPU_HOSTNAME", "../node"));
  EXPECT_FALSE(takes("STARPU_HOSTNAME", std::string(65, 'a')));
}

TEST(StarpuVariables, Files) {
  const test::ScratchDirectory scratch;
  for (const char* name : {"STARPU_BUS_STATS_FILE", "STARPU_WORKER_STATS_FILE"}) {
    EXPECT_TRUE(takes(name, (scratch / "new").string()));
    EXPECT_TRUE(takes(name, "/dev/null"));
    const std::string folder = (scratch / ".").string();
    const std::vector<std::string> bad{"", folder, (scratch / "none/x").string(), "/dev/null/x",
                                       (scratch / std::string(300, 'x')).string()};
    for (const std::string& value : bad) EXPECT_FALSE(takes(name, value)) << value;
  }
}

TEST(StarpuVariables, OfTheEnvironmentAreNamedWithValueAndRange) {
  EXPECT_NO_THROW(expect_good_starpu_variables());
  ScopedEnvironment environment;
  environment.remove("STARPU_NCPU");
  environment.set_default("STARPU_NCPU", "ab\nc");
  EXPECT_THAT(test::message_of<Error>(&expect_good_starpu_variables),
              R"(the environment has STARPU_NCPU="ab\nc": it must be a whole number between 0 and )"
              "2147483647; change or unset it");
}

}  // namespace
}  // namespace dos::rt::starpu_variables_test
