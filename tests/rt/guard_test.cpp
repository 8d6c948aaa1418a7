// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <stdexcept>

#include "base/log.hpp"
#include "rt/tasks.hpp"

namespace dos::rt::guard_test {
namespace {

struct NotAStandardException {};

void throw_standard(const TaskView& /*task*/) {
  throw std::runtime_error("the kernel's own words");
}

void throw_foreign(const TaskView& /*task*/) {
  throw NotAStandardException{};
}

/// Runs one task of a codelet that throws. StarPU starts inside the death test's own process.
template <void (*kCpu)(const TaskView&)>
void run_throwing(const char* symbol) {
  log::configure("error");
  static const Codelet codelet =
      make_codelet<kCpu>({.symbol = symbol, .modes = {Mode::kReadWrite}, .tail = {}});
  Session session({.scheduler = "", .cpu_workers = 1});
  const Handle buffer(session, {.name = "b", .count = 1});
  const std::vector<const Handle*> buffers{&buffer};
  Submitter submitter(session);
  submitter.submit(codelet, buffers, 0, {}, {});
  session.wait_all();
}

class GuardDeathTest : public ::testing::Test {
 protected:
  // A forked copy would lack StarPU's threads: the program is started anew instead.
  void SetUp() override { ::testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(GuardDeathTest, ExceptionInATaskNamesTheCodeletAndAborts) {
  EXPECT_EXIT(run_throwing<throw_standard>("dos.test_throws.v1"),
              ::testing::KilledBySignal(SIGABRT), "dos.test_throws.v1: the kernel's own words");
}

TEST_F(GuardDeathTest, ForeignExceptionNamesTheCodeletAndAborts) {
  EXPECT_EXIT(run_throwing<throw_foreign>("dos.test_throws_foreign.v1"),
              ::testing::KilledBySignal(SIGABRT), "dos.test_throws_foreign.v1: ");
}

}  // namespace
}  // namespace dos::rt::guard_test
