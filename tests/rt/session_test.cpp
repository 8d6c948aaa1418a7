// SPDX-License-Identifier: Apache-2.0
#include "rt/session.hpp"

#include <gmock/gmock.h>
#include <starpu.h>

#include <atomic>
#include <cstdlib>

#include "base/error.hpp"
#include "base/scoped_environment.hpp"
#include "rt/tasks.hpp"

namespace dos::rt::session_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

std::string running_policy() {
  return starpu_sched_ctx_get_sched_policy(0)->policy_name;
}

/// Runs `tasks` tasks over `buffers` buffers and returns how many ran.
int run_tasks(Session& session, int tasks, int buffers) {
  std::atomic<int> ran{0};
  const test::Body count_up = [&](const TaskView&) { ++ran; };
  std::vector<std::unique_ptr<Handle>> handles;
  for (int i = 0; i < buffers; ++i) {
    handles.push_back(std::make_unique<Handle>(session, HandleSpec{.name = "b", .count = 16}));
  }
  Submitter submitter(session);
  for (int i = 0; i < tasks; ++i) {
    test::submit_body(submitter, count_up, {handles[static_cast<std::size_t>(i % buffers)].get()});
  }
  session.wait_all();
  return ran;
}

TEST(Session, UnknownSchedulerNamesTheNearestAndAllKnownOnes) {
  const std::string message =
      test::message_of<Error>([] { const Session session({.scheduler = "lwss"}); });
  EXPECT_THAT(message, HasSubstr("unknown scheduler 'lwss' (did you mean 'lws'?)"));
  for (const std::string& name : Session::known_schedulers()) {
    EXPECT_THAT(message, HasSubstr(name));
  }
}

TEST(Session, UnknownSchedulerWithoutANeighbourSuggestsNothing) {
  const std::string message =
      test::message_of<Error>([] { const Session session({.scheduler = "completely-different"}); });
  EXPECT_THAT(message, AllOf(HasSubstr("known: "), Not(HasSubstr("did you mean"))));
}

TEST(Session, KnownSchedulersHoldTheDefault) {
  EXPECT_THAT(Session::known_schedulers(), Contains(kDefaultScheduler));
}

// Also the proof that sessions may follow one another in one process, with the same codelets.
TEST(Session, EveryKnownSchedulerStartsAndRunsTasks) {
  for (const std::string& name : Session::known_schedulers()) {
    SCOPED_TRACE(name);
    Session session({.scheduler = name, .cpu_workers = 2});
    EXPECT_EQ(session.scheduler(), name);
    EXPECT_EQ(running_policy(), name);
    EXPECT_EQ(run_tasks(session, 40, 3), 40);
  }
}

TEST(Session, EmptySchedulerIsTheDefault) {
  const Session session({.scheduler = "", .cpu_workers = 1});
  EXPECT_EQ(session.scheduler(), kDefaultScheduler);
  EXPECT_EQ(running_policy(), kDefaultScheduler);
}

/// An environment variable with a value for the duration of a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Session, TakesTheSchedulerOfTheEnvironmentWhenNoneIsConfigured) {
  const Variable environment("STARPU_SCHED", "eager");
  const Session session({.scheduler = "", .cpu_workers = 1});
  EXPECT_EQ(session.scheduler(), "eager");
  EXPECT_EQ(running_policy(), "eager");
}

TEST(Session, ConfiguredSchedulerMustAgreeWithTheEnvironment) {
  const Variable environment("STARPU_SCHED", "eager");
  EXPECT_THAT(test::message_of<Error>([] { const Session session({.scheduler = "prio"}); }),
              AllOf(HasSubstr("'prio'"), HasSubstr("STARPU_SCHED=eager")));
  const Session session({.scheduler = "eager", .cpu_workers = 1});
  EXPECT_EQ(running_policy(), "eager");
}

TEST(Session, UnknownSchedulerInTheEnvironmentIsAnError) {
  const Variable environment("STARPU_SCHED", "eagle");
  EXPECT_THAT(test::message_of<Error>([] { const Session session({}); }),
              HasSubstr("'eagle' (did you mean 'eager'?)"));
}

TEST(Session, ConfiguredWorkersWinOverTheEnvironment) {
  const Variable environment("STARPU_NCPU", "1");
  {
    const Session session({});
    EXPECT_EQ(session.workers(), 1);
  }
  const Session session({.scheduler = "", .cpu_workers = 2});
  EXPECT_EQ(session.workers(), 2);
}

TEST(Session, HasTheWorkersAskedFor) {
  for (const Index wanted : {1, 2, 1}) {
    const Session session({.scheduler = "", .cpu_workers = wanted});
    EXPECT_EQ(session.workers(), wanted);
  }
}

TEST(Session, TakesOneWorkerACoreByDefault) {
  const Session session({});
  EXPECT_GE(session.workers(), 1);
  EXPECT_LE(session.workers(), static_cast<Index>(std::thread::hardware_concurrency()));
}

TEST(Session, NoWorkerIsAnErrorThatNamesTheRemedyAndCanBeRepaired) {
  const std::string message =
      test::message_of<Error>([] { const Session session({.scheduler = "", .cpu_workers = 0}); });
  EXPECT_THAT(message, HasSubstr("STARPU_NCPU"));
  Session session({.scheduler = "", .cpu_workers = 1});
  EXPECT_EQ(run_tasks(session, 3, 1), 3);
}

TEST(Session, WaitAllReturnsAfterTheLastTask) {
  Session session({.scheduler = "", .cpu_workers = 2});
  std::atomic<bool> done{false};
  const test::Body slow = [&](const TaskView&) {
    test::sleep_ms(50);
    done = true;
  };
  const Handle buffer(session, {.name = "b", .count = 1});
  Submitter submitter(session);
  test::submit_body(submitter, slow, {&buffer});
  session.wait_all();
  EXPECT_TRUE(done);
}

// What starts later may look for devices.
TEST(Session, HidesDevicesFromHwlocWhileItStartsOnly) {
  ScopedEnvironment environment;
  environment.remove("HWLOC_COMPONENTS");
  const Session session({.scheduler = "", .cpu_workers = 1});
  EXPECT_EQ(std::getenv("HWLOC_COMPONENTS"), nullptr);
}

TEST(Session, SaysItsVersion) {
  EXPECT_THAT(Session::version(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(Session::version(), ::testing::StartsWith(std::to_string(STARPU_MAJOR_VERSION) + "." +
                                                        std::to_string(STARPU_MINOR_VERSION)));
}

}  // namespace
}  // namespace dos::rt::session_test
