// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "dist/exchange.hpp"

namespace dos::dist {

/// Watches an exchange's progress thread, on a thread of its own: when a call does not return there
/// (a queue of MPI whose other end was killed, a GPU or a StarPU that hangs), nobody listens to the
/// other ranks, and whoever waits for messages waits for ever.
class ExchangeWatch {
 public:
  /// Calls `end` once, with a line that names this rank and its step, when the thread has not come
  /// back for the exchange's time-out. `exchange` must outlive the object.
  ExchangeWatch(const Exchange& exchange, std::function<void(const std::string&)> end);
  ExchangeWatch(const ExchangeWatch&) = delete;
  ExchangeWatch& operator=(const ExchangeWatch&) = delete;
  ~ExchangeWatch();

 private:
  void watch();

  const Exchange& exchange_;
  std::function<void(const std::string&)> end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace dos::dist
