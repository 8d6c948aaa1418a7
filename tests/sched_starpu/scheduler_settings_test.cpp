// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <csignal>

#include "base/error.hpp"
#include "base/scoped_environment.hpp"
#include "rt/tasks.hpp"
#include "sched_starpu/guarded.hpp"
#include "sched_starpu/policies.hpp"

namespace dos::sched_starpu::scheduler_settings_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kVariables[] = {"DOS_SCHED_STRIDE",   "DOS_SCHED_SHARE",
                                      "DOS_SCHED_WINDOW",   "DOS_SCHED_RESIDENTS",
                                      "DOS_SCHED_FALLBACK", "DOS_SCHED_UPDATE_PREFIX"};

SchedulerSettings settings_with(const char* name, const char* value) {
  ScopedEnvironment environment;
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
  EXPECT_FALSE(settings_with("DOS_SCHED_FALLBACK", "0").fallback);
  EXPECT_TRUE(settings_with("DOS_SCHED_FALLBACK", "").fallback);
  EXPECT_EQ(settings_with("DOS_SCHED_UPDATE_PREFIX", "adam").update_prefix, "adam");
}

TEST(SchedulerSettings, NameTheVariableThatIsWrong) {
  struct Wrong {
    const char* name;
    const char* value;
    const char* allowed;
  };
  constexpr const char* kCount = "must be a whole number of at least 1";
  constexpr const char* kPart = "must be a number from 0 to 1";
  const Wrong wrong[] = {{"DOS_SCHED_STRIDE", "two", kCount},
                         {"DOS_SCHED_STRIDE", "2x", kCount},
                         {"DOS_SCHED_STRIDE", "0", kCount},
                         {"DOS_SCHED_WINDOW", "1.5", kCount},
                         {"DOS_SCHED_WINDOW", "-1", kCount},
                         {"DOS_SCHED_SHARE", "a", kPart},
                         {"DOS_SCHED_SHARE", "8", kPart},
                         {"DOS_SCHED_SHARE", "-0.1", kPart},
                         {"DOS_SCHED_SHARE", "nan", kPart},
                         {"DOS_SCHED_RESIDENTS", "yes", "must be 0 or 1"},
                         {"DOS_SCHED_RESIDENTS", "2", "must be 0 or 1"},
                         {"DOS_SCHED_FALLBACK", "no", "must be 0 or 1"}};
  for (const Wrong& each : wrong)
    EXPECT_EQ(test::message_of<Error>([&] { settings_with(each.name, each.value); }),
              fmt::format("{}={}: {}; change or unset it", each.name, each.value, each.allowed));
}

TEST(SchedulerSettings, AreNotStrideAndShare) {
  ScopedEnvironment environment;
  for (const char* each : kVariables) environment.remove(each);
  environment.set_default("DOS_SCHED_SHARE", "0.5");
  environment.set_default("DOS_SCHED_STRIDE", "2");
  EXPECT_THAT(test::message_of<Error>([] { settings_from_environment(); }),
              HasSubstr("DOS_SCHED_STRIDE=2 and DOS_SCHED_SHARE=0.5: set one of them, not both"));
}

TEST(SchedulerSettings, RefuseAMistypedVariable) {
  EXPECT_THAT(test::message_of<Error>([] { settings_with("DOS_SCHED_STIDE", "3"); }),
              AllOf(HasSubstr("DOS_SCHED_STIDE=3: unknown variable (did you mean "
                              "'DOS_SCHED_STRIDE'?); known: DOS_SCHED_STRIDE, DOS_SCHED_SHARE"),
                    HasSubstr("rename or unset it")));
  EXPECT_THAT(
      test::message_of<Error>([] { settings_with("DOS_SCHED_X", ""); }),
      AllOf(HasSubstr("DOS_SCHED_X=: unknown variable; known"), Not(HasSubstr("did you mean"))));
}

TEST(SchedulerCallbacks, EndTheProgramWithTheUsersMistake) {
  EXPECT_EXIT(guarded("init", [] { fail("DOS_SCHED_SHARE=8: too much"); }),
              testing::ExitedWithCode(1),
              "^error: scheduler, init: DOS_SCHED_SHARE=8: too much\n$");
  EXPECT_EXIT(guarded("push", [] { require(false, "a task"); }), testing::KilledBySignal(SIGABRT),
              "error: scheduler, push: ");
}

}  // namespace
}  // namespace dos::sched_starpu::scheduler_settings_test
