// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace dos::ranks {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// What ranks tell each other again and again while they live.
struct Beat {
  enum State : std::int64_t { kAlive, kDone, kStopped };
  std::int64_t state = kAlive;
  std::int64_t step = 0;  ///< that the rank is at
  char text[240] = {};    ///< why it stopped
};

/// A beat that stops everybody; a longer text is cut.
Beat stopped_beat(Index step, std::string_view why);

/// Why the ranks cannot go on: the rank whose fault it is, and a line.
struct Failure {
  Index rank = 0;
  std::string what;
};

/// Knows of every other rank when it was heard of last. Decisions only: no clock, thread or MPI.
class Heartbeats {
 public:
  Heartbeats(Index rank, Index ranks, Seconds timeout, Clock::time_point now);

  void set_timeout(Seconds timeout);

  /// Time between beats, and how long the thread that listens may sleep.
  [[nodiscard]] Seconds interval() const { return interval_; }
  /// Whether beats are to be sent now; they count as sent.
  bool is_due(Clock::time_point now);

  /// A message other than a beat came from `peer`.
  void heard(Index peer, Clock::time_point now);
  /// A beat came. Returns why the ranks cannot go on, if the peer has stopped.
  std::optional<Failure> heard(Index peer, const Beat& beat, Clock::time_point now);
  /// A message other than a beat to or from `peer` is under way, until end_message().
  void begin_message(Index peer, Clock::time_point now);
  void end_message(Index peer);
  /// The rank that has been silent for longer than the time-out, if any; a rank that is done may
  /// be, unless a message to or from it is still under way. Pre: everything that has
  /// arrived was heard. Silence counts only while this is called: a process that did not run, or
  /// whose machine was too busy to let it, blames nobody.
  std::optional<Failure> silent(Clock::time_point now);

  [[nodiscard]] bool is_done(Index peer) const { return peers_[to_size(peer)].done; }
  /// Whether every other rank has said that it is done.
  [[nodiscard]] bool all_done() const;

 private:
  static std::size_t to_size(Index value) { return static_cast<std::size_t>(value); }
  struct Peer {
    Clock::time_point heard;
    Index step = 0;
    bool done = false;
    Index under_way = 0;  ///< messages
  };
  Index rank_;
  Seconds timeout_;
  Seconds interval_;
  Clock::time_point sent_{};
  Clock::time_point looked_;
  std::vector<Peer> peers_;
};

}  // namespace dos::ranks
