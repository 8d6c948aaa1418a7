// SPDX-License-Identifier: Apache-2.0
#include "platform/crash_signals.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/sanitizer.hpp"

namespace dos::platform::crash_signals_test {
namespace {

using Handler = void (*)(int);

void own_handler(int /*signal*/) {}

Handler handler_of(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler;
}

TEST(CrashSignals, AreTakenFromLibrariesOnly) {
  if (kIsSanitized) GTEST_SKIP() << "the sanitizers' handlers stay";
  // Any function of a library will do: it is not called.
  const auto foreign = reinterpret_cast<Handler>(dlsym(RTLD_DEFAULT, "abort"));
  ASSERT_NE(foreign, nullptr);
  std::signal(SIGSEGV, foreign);
  std::signal(SIGABRT, foreign);
  std::signal(SIGBUS, own_handler);
  std::signal(SIGQUIT, SIG_IGN);
  std::signal(SIGTERM, foreign);
  std::signal(SIGHUP, foreign);
  leave_crashes_to_the_system();
  EXPECT_EQ(handler_of(SIGSEGV), SIG_DFL);
  EXPECT_EQ(handler_of(SIGABRT), SIG_DFL);
  EXPECT_EQ(handler_of(SIGBUS), own_handler);
  EXPECT_EQ(handler_of(SIGQUIT), SIG_IGN);
  EXPECT_EQ(handler_of(SIGTERM), foreign);
  EXPECT_EQ(handler_of(SIGHUP), SIG_DFL);
}

}  // namespace
}  // namespace dos::platform::crash_signals_test
