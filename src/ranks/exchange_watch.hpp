// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "ranks/exchange.hpp"

namespace dos::ranks {

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

 private:
  void watch(const std::stop_token& stop);

  const Exchange& exchange_;
  std::function<void(const std::string&)> end_;
  std::jthread thread_;  ///< last: ends before what it uses
};

}  // namespace dos::ranks
