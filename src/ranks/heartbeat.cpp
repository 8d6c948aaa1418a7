// SPDX-License-Identifier: Apache-2.0
#include "ranks/heartbeat.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace dos::ranks {
namespace {

/// Beats in a time-out: enough that a few late ones do not matter.
constexpr double kBeats = 8;
constexpr Seconds kLongestInterval{1.0};

}  // namespace

Beat stopped_beat(Index step, std::string_view why) {
  Beat beat;
  beat.state = Beat::kStopped;
  beat.step = step;
  why = why.substr(0, std::min(why.find('\n'), sizeof beat.text - 1));
  std::memcpy(beat.text, why.data(), why.size());
  return beat;
}

Heartbeats::Heartbeats(Index rank, Index ranks, Seconds timeout, Clock::time_point now)
    : rank_(rank), looked_(now), peers_(to_size(ranks), Peer{.heard = now}) {
  set_timeout(timeout);
}

void Heartbeats::set_timeout(Seconds timeout) {
  timeout_ = timeout;
  interval_ = std::min(kLongestInterval, timeout / kBeats);
}

bool Heartbeats::is_due(Clock::time_point now) {
  if (sent_ != Clock::time_point{} && now - sent_ < interval_) return false;
  sent_ = now;
  return true;
}

void Heartbeats::heard(Index peer, Clock::time_point now) {
  peers_[to_size(peer)].heard = now;
}

std::optional<Failure> Heartbeats::heard(Index peer, const Beat& beat, Clock::time_point now) {
  Peer& known = peers_[to_size(peer)];
  known.heard = now;
  known.step = beat.step;
  known.done = beat.state == Beat::kDone;
  if (beat.state != Beat::kStopped) return std::nullopt;
  return Failure{peer, fmt::format("rank {} stopped at step {}: {}", peer, beat.step, beat.text)};
}

void Heartbeats::begin_message(Index peer, Clock::time_point now) {
  Peer& known = peers_[to_size(peer)];
  ++known.under_way;
  // Who is done says nothing any more.
  if (known.done) known.heard = now;
}

void Heartbeats::end_message(Index peer) {
  --peers_[to_size(peer)].under_way;
}

std::optional<Failure> Heartbeats::silent(Clock::time_point now) {
  const bool was_away = now - looked_ > timeout_ / 2;
  looked_ = now;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (was_away) peer.heard = now;
    if (static_cast<Index>(i) == rank_ || now - peer.heard <= timeout_) continue;
    if (peer.done && peer.under_way == 0) continue;
    const std::string what =
        peer.done
            ? fmt::format(
                  "rank {} ended at step {} without the messages that others wait for ({:.0f} s, "
                  "dist.timeout_s)",
                  i, peer.step, timeout_.count())
            : fmt::format(
                  "rank {} has not been heard of for {:.0f} s (dist.timeout_s), it was at step {}",
                  i, timeout_.count(), peer.step);
    return Failure{static_cast<Index>(i), what};
  }
  return std::nullopt;
}

bool Heartbeats::all_done() const {
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (static_cast<Index>(i) != rank_ && !peers_[i].done) return false;
  return true;
}

}  // namespace dos::ranks
