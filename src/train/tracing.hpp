// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "dist/exchange.hpp"
#include "models/config.hpp"
#include "rt/session.hpp"
#include "trace/recorder.hpp"
#include "train/config.hpp"
#include "train/rank_share.hpp"

namespace dos::train {

/// Where a rank's part of a trace goes: the folder that all ranks share, and who they are;
/// `exchange` is null when there is one.
struct TraceTarget {
  std::filesystem::path folder;
  const RankShare& share;
  dist::Exchange* exchange;
};

/// A recorder that writes into the target. `steps` is "A:B", or "" for all. Throws Error as
/// trace::Recorder does. Null when the folder is "". Collective.
std::unique_ptr<trace::Recorder> start_trace(rt::Session& session, const TraceTarget& target,
                                             const std::string& steps, const TrainConfig& config,
                                             const models::ModelConfig& model);

/// Puts the messages between ranks into a trace while it lives.
class MessageTrace final : public dist::MessageObserver {
 public:
  MessageTrace(trace::Recorder& recorder, dist::Exchange& exchange);
  MessageTrace(const MessageTrace&) = delete;
  MessageTrace& operator=(const MessageTrace&) = delete;
  ~MessageTrace();

  void message_ended(const dist::Message& message, dist::Clock::time_point started,
                     dist::Clock::time_point ended) noexcept override;

 private:
  trace::Recorder& recorder_;
  dist::Exchange& exchange_;
};

/// Ends the recording; rank 0 writes the trace for ViTE (paje.trace) and for Perfetto
/// (perfetto.json) beside it. What cannot be written is a warning: the run is over and done.
/// Collective.
void finish_trace(trace::Recorder& recorder, const TraceTarget& target);

}  // namespace dos::train
