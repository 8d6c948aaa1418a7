// SPDX-License-Identifier: Apache-2.0
// A program that crashes ends within seconds, whatever its threads hold, with one line.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "base/sanitizer.hpp"
#include "launch/last_words.hpp"
#include "platform/crash_signals.hpp"
#include "rt/tasks.hpp"

namespace dos::launch::crash_test {
namespace {

struct End {
  int signal = 0;  ///< 0: it did not end
  std::string words;
};

struct Pipe {
  std::array<int, 2> ends{};
  Pipe() { EXPECT_EQ(::pipe(ends.data()), 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  [[nodiscard]] std::string contents() const {
    std::string text(1 << 16, '\0');
    ::close(ends[1]);
    const ssize_t count = ::read(ends[0], text.data(), text.size());
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
    return text;
  }
};

/// How a process ends that does this, on a full pipe if nobody is to read its words.
End end_of(const std::function<void()>& crash, bool is_read = true) {
  const Pipe pipe;
  if (!is_read) {
    const std::string much(1 << 16, 'x');
    EXPECT_EQ(::write(pipe.ends[1], much.data(), much.size()), std::ssize(much));
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(pipe.ends[1], STDERR_FILENO);
    platform::say_at_crash("program");
    crash();
    ::_exit(EXIT_SUCCESS);
  }
  End end;
  int status = 0;
  if (test::eventually([&] { return ::waitpid(child, &status, WNOHANG) == child; })) {
    EXPECT_TRUE(WIFSIGNALED(status)) << "it survived: " << status;
    end.signal = WTERMSIG(status);
  } else {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  if (is_read) end.words = pipe.contents();
  return end;
}

/// Writes where nothing is.
void crash() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

/// glibc notices, and aborts, while it holds the lock of its heap.
void abort_in_free() {
  auto* block = static_cast<volatile char*>(std::malloc(5000));
  auto* next = std::malloc(5000);
  // Over its end, where the size of the next one is.
  for (Index i = 0; i < 5000 + 32; ++i) block[i] = 0x11;
  std::free(const_cast<char*>(block));
  std::free(next);
}

/// Deeper than any stack.
int overflow(const volatile char* before, Index depth = Index{1} << 40) {
  volatile char frame[4096];
  frame[0] = before == nullptr ? '\0' : *before;
  return depth == 0 ? 0 : overflow(frame, depth - 1) + frame[0];
}

/// In a task of a session, beside a task that waits.
void in_a_worker(const std::function<void()>& what) {
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  const rt::Handle buffer(session, {.name = "b", .count = 1});
  rt::Submitter submitter(session);
  const test::Body body = [&](const rt::TaskView&) { what(); };
  const test::Body waits = [&](const rt::TaskView&) { test::sleep_ms(100'000); };
  test::submit_body(submitter, waits, {});
  test::submit_body(submitter, body, {&buffer});
  session.wait_all();
}

void in_two_threads_at_once(const std::function<void()>& what) {
  std::atomic<int> there = 0;
  const auto act = [&] {
    ++there;
    while (there < 2) {
    }
    what();
  };
  std::thread other(act);
  act();
}

Index count(const std::string& text, const std::string& word) {
  Index found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

void expect_words(const End& end, int signal, const std::string& words) {
  EXPECT_EQ(end.signal, signal) << end.words;
  EXPECT_EQ(count(end.words, words), 1) << end.words;
}

class CrashTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kIsSanitized) GTEST_SKIP() << "the sanitizers' handlers stay";
  }
};

constexpr const char* kWords = "program: internal error: crashed (SIGSEGV)";

TEST_F(CrashTest, EndsWithOneLine) {
  expect_words(end_of(&crash), SIGSEGV, kWords);
  expect_words(end_of([] { ::raise(SIGBUS); }), SIGBUS, "crashed (SIGBUS)");
}

TEST_F(CrashTest, EndsInAWorkerWithItsTasksPending) {
  expect_words(end_of([] { in_a_worker(&crash); }), SIGSEGV, kWords);
}

TEST_F(CrashTest, EndsInTwoThreadsAtOnce) {
  for (int i = 0; i < 20; ++i)
    expect_words(end_of([] { in_two_threads_at_once(&crash); }), SIGSEGV, kWords);
}

TEST_F(CrashTest, EndsWhenAStackIsFull) {
  expect_words(end_of([] { overflow(nullptr); }), SIGSEGV, kWords);
  EXPECT_EQ(end_of([] { in_a_worker([] { overflow(nullptr); }); }).signal, SIGSEGV);
}

TEST_F(CrashTest, EndsAfterALibraryHasTakenTheSignal) {
  expect_words(end_of([] {
                 // Any function of a library will do.
                 std::signal(SIGSEGV,
                             reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "abort")));
                 platform::leave_crashes_to_the_system();
                 crash();
               }),
               SIGSEGV, kWords);
}

TEST_F(CrashTest, EndsWhenNobodyReadsItsWords) {
  EXPECT_EQ(end_of(&crash, /*is_read=*/false).signal, SIGALRM);
}

TEST_F(CrashTest, AnAbortSaysItsLastWordsWhateverIsHeld) {
  const auto end = [](const std::function<void()>& what) {
    return end_of([&] {
      LastWords words("these are the last words\n");
      words.apply(true);
      what();
    });
  };
  {
    SCOPED_TRACE("abort");
    expect_words(end(&std::abort), SIGABRT, "the last words");
  }
  {
    SCOPED_TRACE("a signal from elsewhere");
    expect_words(end([] { ::kill(::getpid(), SIGABRT); }), SIGABRT, "the last words");
  }
  {
    SCOPED_TRACE("in malloc");
    expect_words(end(&abort_in_free), SIGABRT, "the last words");
  }
  {
    SCOPED_TRACE("in malloc, worker");
    expect_words(end([] { in_a_worker(&abort_in_free); }), SIGABRT, "the last words");
  }
  {
    SCOPED_TRACE("two");
    expect_words(end([] { in_two_threads_at_once(&std::abort); }), SIGABRT, "the last words");
  }
}

}  // namespace
}  // namespace dos::launch::crash_test
