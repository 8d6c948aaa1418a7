// SPDX-License-Identifier: Apache-2.0
#include "train/stop_signal.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <string_view>

#include "platform/crash_signals.hpp"

namespace dos::train {
namespace {

constexpr long kPatienceSeconds = 10;
constexpr int kEndingRequest = 3;

// Any thread may run the handler, and a handler may only use what needs no lock.
std::atomic<int> received_signal = 0;
std::atomic<int> requests = 0;
std::atomic<int> checkpoints_asked = 0;
std::atomic<long> first_request_seconds = 0;
std::atomic<bool> are_caught = false;
/// Since before libraries took it: the program is to outlive its terminal, as under nohup.
std::atomic<bool> is_hangup_ignored = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<long>::is_always_lock_free);

long seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

/// Counts a request; true when it is to end the process.
bool is_last_request() {
  const long now = seconds_now();
  const int before = requests.fetch_add(1);
  if (before == 0) first_request_seconds = now;
  const long waited = now - first_request_seconds;
  if (before + 1 >= kEndingRequest && waited >= kPatienceSeconds) return true;
  if (before == 1 && waited >= 1) {
    constexpr std::string_view kNote =
        "still stopping after the current step, with a checkpoint; a third signal, 10 s after the "
        "first, ends at once\n";
    static_cast<void>(::write(STDERR_FILENO, kNote.data(), kNote.size()) == 0);
  }
  return false;
}

void remember(int signal) {
  const int saved_errno = errno;
  received_signal = signal;
  if ((signal == SIGINT || signal == SIGTERM) && is_last_request()) {
    struct sigaction ordinary {};
    ordinary.sa_handler = SIG_DFL;
    sigemptyset(&ordinary.sa_mask);
    sigaction(signal, &ordinary, nullptr);
    // Arrives when the handler returns.
    raise(signal);
  }
  errno = saved_errno;
}

void ask_for_checkpoint(int /*signal*/) {
  ++checkpoints_asked;
}

void change_mask(int how, bool with_warnings) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR2);
  if (with_warnings) {
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGXCPU);
  }
  sigprocmask(how, &signals, nullptr);
}

}  // namespace

void hold_stop_signals() noexcept {
  struct sigaction action {};
  sigaction(SIGHUP, nullptr, &action);
  is_hangup_ignored = action.sa_handler == SIG_IGN;
  change_mask(SIG_BLOCK, /*with_warnings=*/true);
}

void catch_stop_signals(Warnings warnings) noexcept {
  struct sigaction action {};
  action.sa_handler = remember;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
  action.sa_handler = ask_for_checkpoint;
  sigaction(SIGUSR2, &action, nullptr);
  // Compilers of kernels take these, while steps run.
  for (const int signal : {SIGXCPU, SIGHUP}) {
    action.sa_handler = signal == SIGHUP && is_hangup_ignored ? SIG_IGN : remember;
    platform::handle_at_end(signal, action.sa_handler);
    sigaction(signal, &action, nullptr);
  }
  are_caught = true;
  change_mask(SIG_UNBLOCK, warnings == Warnings::kCaught);
}

void catch_stop_signals_again() noexcept {
  if (are_caught) catch_stop_signals();
}

int stop_signal() {
  return received_signal;
}

Index checkpoint_requests() {
  return checkpoints_asked;
}

const char* stop_signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGHUP:
      return "SIGHUP";
    case SIGXCPU:
      return "SIGXCPU";
    default:
      return nullptr;
  }
}

}  // namespace dos::train
