// SPDX-License-Identifier: Apache-2.0
#include "base/stop.hpp"

#include <condition_variable>
#include <mutex>

namespace dos {

bool sleep_unless_stopped(const std::stop_token& stop, std::chrono::duration<double> period) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait_for(lock, stop, period, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace dos
