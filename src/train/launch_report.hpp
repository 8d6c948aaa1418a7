// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "dist/exchange.hpp"
#include "rt/session.hpp"
#include "tensor/layout.hpp"
#include "train/config.hpp"
#include "train/message_memory.hpp"
#include "train/rank_share.hpp"
#include "train/trainer.hpp"

namespace dos::train {

/// "fp32", "bf16 with fp32 gradients" or "bf16 with bf16 gradients".
std::string describe_precision(const TrainConfig& config);

/// Logs what is about to be trained, where, and with what.
void report_start(const TrainConfig& config, const models::ModelConfig& model,
                  const tensor::Layout& layout, const rt::Session& session, const RankShare& share,
                  const MessageMemory& messages);

/// Prints the summary of a run that has ended.
void report_end(const TrainConfig& config, const TrainResult& result,
                const std::filesystem::path& out);

/// Logs what messages have cost this rank so far.
void report_messages(dist::Exchange& exchange);

}  // namespace dos::train
