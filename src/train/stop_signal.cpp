// SPDX-License-Identifier: Apache-2.0
#include "train/stop_signal.hpp"

#include <array>
#include <atomic>
#include <csignal>

namespace dos::train {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGUSR1};

// Any thread may run the handler, and a handler may only use what needs no lock.
std::atomic<int> received_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void remember(int signal) {
  received_signal = signal;
}

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

StopSignal::~StopSignal() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

int StopSignal::number() {
  return received_signal;
}

const char* StopSignal::name_of(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return nullptr;
  }
}

}  // namespace dos::train
