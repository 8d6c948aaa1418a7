// SPDX-License-Identifier: Apache-2.0
#include "ranks/exchange_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/stop.hpp"

namespace dos::ranks {
namespace {

/// Looks within the time-out. Looks, not time: a process that was stopped does not hang.
constexpr Index kLooks = 20;
/// Longer than clocks can count are time-outs that stand for none.
constexpr Seconds kLongestPeriod{3600};

}  // namespace

ExchangeWatch::ExchangeWatch(const Exchange& exchange, std::function<void(const std::string&)> end)
    : exchange_(exchange),
      end_(std::move(end)),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

void ExchangeWatch::watch(const std::stop_token& stop) {
  Index known = Exchange::kEnded;
  Index looks = 0;
  const auto period = [&] {
    return std::min(exchange_.timeout() / static_cast<double>(kLooks), kLongestPeriod);
  };
  while (sleep_unless_stopped(stop, period())) {
    const Index rounds = exchange_.rounds();
    const bool stands = rounds == known && rounds != Exchange::kEnded;
    known = rounds;
    looks = stands ? looks + 1 : 0;
    if (looks < kLooks) continue;
    end_(
        fmt::format("the thread for messages has not come back from MPI, StarPU or a GPU for "
                    "{:.0f} s (dist.timeout_s), another rank may have been killed; this is rank "
                    "{}, at step {}",
                    exchange_.timeout().count(), exchange_.rank(), exchange_.step()));
    return;
  }
}

}  // namespace dos::ranks
