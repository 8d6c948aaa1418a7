// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "ranks/exchange.hpp"
#include "rt/session.hpp"
#include "trace/recorder.hpp"
#include "train/run.hpp"

namespace dos::launch {

/// Throws Error unless one of the steps ("A:B", "": all) comes after step `before`, where the run
/// goes on, and up to `last`.
void expect_traced_steps(const std::string& steps, Index before, Index last);

/// Where a rank's part of a trace goes: the folder that all ranks share, and who they are;
/// `exchange` is null when there is one.
struct TraceTarget {
  std::filesystem::path folder;
  const ranks::RankShare& share;
  ranks::Exchange* exchange;
};

/// A recorder that writes into the target. `steps` is "A:B", or "" for all. Throws Error as
/// trace::Recorder does. Null when the folder is "". Collective.
std::unique_ptr<trace::Recorder> start_trace(rt::Session& session, const TraceTarget& target,
                                             const std::string& steps, const train::Run& run);

/// Puts the messages between ranks into a trace while it lives.
class MessageTrace final : public ranks::MessageObserver {
 public:
  MessageTrace(trace::Recorder& recorder, ranks::Exchange& exchange);
  MessageTrace(const MessageTrace&) = delete;
  MessageTrace& operator=(const MessageTrace&) = delete;
  ~MessageTrace();

  void message_ended(const ranks::Message& message, ranks::Clock::time_point started,
                     ranks::Clock::time_point ended) noexcept override;

 private:
  trace::Recorder& recorder_;
  ranks::Exchange& exchange_;
};

/// Ends the recording; rank 0 writes the trace for ViTE (paje.trace) and for Perfetto
/// (perfetto.json) beside it. What cannot be written is a warning: the run is over and done.
/// Collective.
void finish_trace(trace::Recorder& recorder, const TraceTarget& target);

}  // namespace dos::launch
