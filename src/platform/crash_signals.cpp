// SPDX-License-Identifier: Apache-2.0
#include "platform/crash_signals.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

#include "base/sanitizer.hpp"

namespace dos::platform {
namespace {

/// Seconds for the last words to be read.
constexpr unsigned kPatience = 5;

constexpr std::array kEnds{SIGABRT, SIGBUS,  SIGFPE, SIGHUP,  SIGILL,
                           SIGQUIT, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU};
using Handler = void (*)(int);
/// The program's own, in the order of kEnds.
std::array<std::atomic<Handler>, kEnds.size()> own_handlers;

/// What is said of a crash; no memory is asked for when it has happened.
struct Crash {
  int signal;
  const char* name;
  std::array<char, 256> words{};
  std::size_t length = 0;
};
std::array crashes{Crash{SIGSEGV, "SIGSEGV"}, Crash{SIGBUS, "SIGBUS"}, Crash{SIGFPE, "SIGFPE"},
                   Crash{SIGILL, "SIGILL"}};
std::atomic<bool> is_ending = false;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<Handler>::is_always_lock_free);
std::array<std::byte, std::size_t{1} << 16> main_stack;
/// The program is to outlive its terminal, as under nohup.
bool is_hangup_ignored = false;

void note_hangup() {
  struct sigaction action {};
  sigaction(SIGHUP, nullptr, &action);
  is_hangup_ignored = action.sa_handler == SIG_IGN;
}

/// Before libraries are initialised, which take it.
[[gnu::used, gnu::section(".preinit_array")]] void (*const at_start)() = note_hangup;

void set_action(int signal, Handler handler) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

void say(int signal) {
  for (const Crash& crash : crashes)
    if (crash.signal == signal) write_last_words({crash.words.data(), crash.length});
  end_by(signal);
}

bool is_of_this_program(const void* function) {
  Dl_info its{};
  Dl_info ours{};
  return dladdr(function, &its) != 0 &&
         dladdr(reinterpret_cast<const void*>(&leave_crashes_to_the_system), &ours) != 0 &&
         its.dli_fbase == ours.dli_fbase;
}

}  // namespace

void leave_crashes_to_the_system() noexcept {
  if (kIsSanitized) return;
  for (std::size_t i = 0; i < kEnds.size(); ++i) {
    const int signal = kEnds[i];
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    const bool has_info = (action.sa_flags & SA_SIGINFO) != 0;
    if (!has_info && (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL)) continue;
    const void* handler = has_info ? reinterpret_cast<const void*>(action.sa_sigaction)
                                   : reinterpret_cast<const void*>(action.sa_handler);
    if (is_of_this_program(handler)) continue;
    const Handler own = own_handlers[i];
    const Handler systems = signal == SIGHUP && is_hangup_ignored ? SIG_IGN : SIG_DFL;
    set_action(signal, own == nullptr ? systems : own);
  }
}

void say_at_crash(std::string_view program) noexcept {
  if (kIsSanitized) return;
  const stack_t stack{.ss_sp = main_stack.data(), .ss_flags = 0, .ss_size = main_stack.size()};
  sigaltstack(&stack, nullptr);
  for (Crash& crash : crashes) {
    const auto end = fmt::format_to_n(
        crash.words.data(), crash.words.size(),
        "{}: internal error: crashed ({}); this is a defect of the program, not of its input: "
        "please report it with the command and the output of train_gpt --version\n",
        program, crash.name);
    crash.length = std::min(end.size, crash.words.size());
    handle_at_end(crash.signal, say);
  }
  leave_crashes_to_the_system();
}

void handle_at_end(int signal, Handler handler) noexcept {
  for (std::size_t i = 0; i < kEnds.size(); ++i)
    if (kEnds[i] == signal) own_handlers[i] = handler;
  set_action(signal, handler == nullptr ? SIG_DFL : handler);
}

void end_by(int signal) noexcept {
  set_action(signal, SIG_DFL);
  // The handler holds it until it returns.
  ::raise(signal);
}

void write_last_words(std::string_view words) noexcept {
  // Another thread ends the program at the same time: its words are being written.
  while (is_ending.exchange(true)) ::pause();
  set_action(SIGALRM, SIG_DFL);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  ::alarm(kPatience);
  while (!words.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, words.data(), words.size());
    if (written <= 0) return;
    words.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace dos::platform
