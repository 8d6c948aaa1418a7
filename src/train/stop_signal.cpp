// SPDX-License-Identifier: Apache-2.0
#include "train/stop_signal.hpp"

#include <atomic>
#include <csignal>

namespace dos::train {
namespace {

// Any thread may run the handler, and a handler may only use what needs no lock.
std::atomic<int> received_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void remember(int signal) {
  received_signal = signal;
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = remember;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

int stop_signal() {
  return received_signal;
}

const char* stop_signal_name(int signal) {
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
