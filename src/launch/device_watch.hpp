// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "launch/last_words.hpp"
#include "rt/progress.hpp"

namespace dos::launch {

/// A device's memory at some moment.
struct DeviceRoom {
  std::string name;
  Index bytes = 0;  ///< that StarPU may use
  Index free = 0;   ///< of them
};

/// One line: the fullest of the devices, what of it is free, and what has waited for so long:
/// tasks, or messages between ranks.
std::string stall_text(const std::vector<DeviceRoom>& devices, const rt::Progress& now,
                       double seconds);

/// Watches a session with devices while a run goes on, on a thread of its own: a device without
/// room for the next task or message makes StarPU try for ever (rt::StallDetector), or abort. Looks
/// at which the system has had no processor for the program do not count. An
/// abort while a device has less than a sixteenth of its memory left says `advice`.
class DeviceWatch {
 public:
  /// Looks within the time after which a run has stalled.
  static constexpr Index kLooks = 20;

  /// What it looks at, once a look each, in this order.
  struct Sources {
    std::function<std::vector<DeviceRoom>()> rooms;
    std::function<rt::Progress()> progress;
    std::function<bool()> is_starved = [] { return false; };  ///< the program, since the last look
  };

  /// The devices and tasks of the running session, which outlives what looks at it.
  static Sources session_sources();

  /// Calls `end` once, with stall_text() and the advice behind it, when nothing has happened for
  /// `patience_s` seconds though there is work (rt::StallDetector). Pre: patience_s > 0.
  DeviceWatch(double patience_s, const std::string& advice,
              std::function<void(const std::string&)> end, Sources sources = session_sources());
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

 private:
  void watch(const std::stop_token& stop);

  double patience_s_;
  std::string advice_;
  std::function<void(const std::string&)> end_;
  Sources sources_;
  LastWords last_words_;
  std::jthread thread_;  ///< last: ends before what it uses
};

}  // namespace dos::launch
