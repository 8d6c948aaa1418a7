// SPDX-License-Identifier: Apache-2.0
#include "train/stop_signal.hpp"

#include <array>
#include <csignal>
#include <cstring>

namespace dos::train {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGUSR1};

// Handlers may only touch such a variable.
volatile std::sig_atomic_t received_signal = 0;

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

const char* StopSignal::received() {
  switch (received_signal) {
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
