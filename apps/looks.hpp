// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>

#include "apps/parser.hpp"
#include "base/error.hpp"
#include "base/types.hpp"

namespace dos::apps {

/// Between two looks at a run, for as long as nobody ends the program by SIGINT, SIGTERM or SIGHUP,
/// which end the next pause() while it lives. One at a time.
class Looks {
 public:
  Looks() {
    // Other threads, of libraries, may take a signal: it reaches the one that waits by a pipe.
    if (::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail_errno("cannot make a pipe", errno);
    told_ = ends_[1];
    struct sigaction action {};
    action.sa_handler = [](int /*signal*/) {
      const int kept = errno;
      [[maybe_unused]] const ssize_t written = ::write(told_, "", 1);
      errno = kept;
    };
    action.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals.at(i), &action, &before_.at(i));
  }
  Looks(const Looks&) = delete;
  Looks& operator=(const Looks&) = delete;
  ~Looks() {
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals.at(i), &before_.at(i), nullptr);
    for (const int end : ends_) ::close(end);
  }

  /// False as soon as somebody asks for the end.
  [[nodiscard]] bool pause(double seconds) const {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                     std::chrono::duration<double>(seconds));
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd waits{.fd = ends_[0], .events = POLLIN, .revents = 0};
      const int ready = ::poll(&waits, 1, static_cast<int>(std::max<Index>(left, 0)));
      if (ready > 0) return false;
      if (ready == 0) return true;
      if (errno != EINTR) fail_errno("cannot wait", errno);
    }
  }

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  static inline int told_ = -1;

  std::array<int, 2> ends_{-1, -1};
  std::array<struct sigaction, kSignals.size()> before_{};
};

/// --seconds: a hundredth at least, and a day at most.
inline Option add_seconds(Parser& app, double& seconds, const std::string& help) {
  return app.add_option("--seconds", seconds, help)
      .capture_default_str()
      .check(within(0.01, 86400.0));
}

}  // namespace dos::apps
