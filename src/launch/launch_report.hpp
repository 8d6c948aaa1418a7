// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "launch/message_memory.hpp"
#include "ranks/exchange.hpp"
#include "rt/session.hpp"
#include "train/checkpoint.hpp"
#include "train/trainer.hpp"

namespace dos::launch {

/// "fp32", "bf16 with fp32 gradients" or "bf16 with bf16 gradients".
std::string describe_precision(const config::TrainConfig& config);

/// Logs what is about to be trained, where, and with what.
void report_start(const train::Run& run, const rt::Session& session, const MessageMemory& messages);

/// Logs where a run goes on, and how long this rank took for its part of the checkpoint.
void report_resumed(const train::CheckpointReader& checkpoint, const train::CheckpointRead& read);

/// Prints the summary of a run that has ended.
void report_end(const config::TrainConfig& config, const train::TrainResult& result,
                const std::filesystem::path& out);

/// Logs what messages have cost this rank so far.
void report_messages(ranks::Exchange& exchange);

}  // namespace dos::launch
