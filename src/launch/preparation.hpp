// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/sources.hpp"
#include "hf/model_weights.hpp"
#include "hf/side_files.hpp"
#include "io/run_lock.hpp"
#include "launch/launch.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/exchange.hpp"
#include "train/checkpoint.hpp"
#include "train/run.hpp"
#include "train/run_data.hpp"

namespace dos::launch {

/// What a rank has found out on its own before it talks to others.
struct Preparation {
  std::optional<train::CheckpointReader> checkpoint;
  std::vector<hf::ModelWeights> weights;  ///< with which a new run starts; of adapters the last
  train::Run run;                         ///< of the only rank
  data::Sources sources;
  train::KeptTokenizer tokenizer;
  hf::SideFiles side_files{};           ///< of the folder that a new run starts with
  std::unique_ptr<io::RunLock> lock{};  ///< of the output folder, on rank 0
};

/// The newest checkpoint of the run behind this one of its own whose manifest is intact, if any: of
/// the same step on the next level, or of an earlier one. Says what is wrong with newer ones.
std::optional<train::CheckpointReader> find_older_checkpoint(
    const LaunchOptions& options, const std::filesystem::path& checkpoint);

/// Reads and checks what the options name, for a run on `ranks` ranks. Throws Error.
Preparation prepare(const LaunchOptions& options, Index ranks);

/// Locks the output folder on rank 0 and prepares on every rank; throws ranks::AgreedError on all
/// when one fails, or they differ.
Preparation prepare_together(const LaunchOptions& options, ranks::Exchange& exchange);

}  // namespace dos::launch
