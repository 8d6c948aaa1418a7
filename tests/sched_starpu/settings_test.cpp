// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "base/error.hpp"
#include "rt/scoped_environment.hpp"
#include "sched_starpu/policies.hpp"

namespace dos::sched_starpu {
namespace {

using testing::HasSubstr;

constexpr const char* kVariables[] = {"DOS_SCHED_STRIDE", "DOS_SCHED_SHARE", "DOS_SCHED_WINDOW",
                                      "DOS_SCHED_RESIDENTS", "DOS_SCHED_UPDATE_PREFIX"};

Settings settings_with(const char* name, const char* value) {
  rt::ScopedEnvironment environment;
  for (const char* each : kVariables) environment.remove(each);
  environment.set_default(name, value);
  return settings_from_environment();
}

TEST(SchedulerSettings, AreReadFromTheEnvironment) {
  EXPECT_EQ(settings_with("DOS_SCHED_STRIDE", "3").options.stride, 3);
  EXPECT_EQ(settings_with("DOS_SCHED_SHARE", "0.25").options.share, 0.25);
  EXPECT_EQ(settings_with("DOS_SCHED_WINDOW", "7").options.window, 7);
  EXPECT_FALSE(settings_with("DOS_SCHED_RESIDENTS", "0").options.residents);
  EXPECT_TRUE(settings_with("DOS_SCHED_RESIDENTS", "").options.residents);
  EXPECT_EQ(settings_with("DOS_SCHED_UPDATE_PREFIX", "adam").update_prefix, "adam");
}

TEST(SchedulerSettings, NameTheVariableThatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"DOS_SCHED_STRIDE", "two"}, {"DOS_SCHED_STRIDE", "2x"},     {"DOS_SCHED_SHARE", "a"},
      {"DOS_SCHED_WINDOW", "1.5"}, {"DOS_SCHED_RESIDENTS", "yes"}, {"DOS_SCHED_RESIDENTS", "2"}};
  for (const auto& [name, value] : wrong) {
    try {
      settings_with(name, value);
      ADD_FAILURE() << name << "=" << value;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string(name) + "=" + value));
    }
  }
  EXPECT_THROW(settings_with("DOS_SCHED_SHARE", "1.5"), Error);
  EXPECT_THROW(settings_with("DOS_SCHED_STRIDE", "0"), Error);
}

}  // namespace
}  // namespace dos::sched_starpu
