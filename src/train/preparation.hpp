// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "data/dataset.hpp"
#include "dist/exchange.hpp"
#include "io/run_lock.hpp"
#include "tensor/layout.hpp"
#include "train/checkpoint.hpp"
#include "train/launch.hpp"
#include "train/run_data.hpp"

namespace dos::train {

/// What a rank has found out on its own before it talks to others.
struct Preparation {
  std::optional<CheckpointReader> checkpoint;
  TrainConfig config;
  data::Dataset dataset;
  models::ModelConfig model;
  tensor::Layout layout;
  KeptTokenizer tokenizer;
  std::unique_ptr<io::RunLock> lock{};  ///< of the output folder, on rank 0
};

/// Reads and checks what the options name, for a run on `ranks` ranks. Throws Error.
Preparation prepare(const LaunchOptions& options, Index ranks);

/// Locks the output folder on rank 0 and prepares on every rank; throws AgreedError on all when one
/// fails, or they differ.
Preparation prepare_together(const LaunchOptions& options, dist::Exchange& exchange);

}  // namespace dos::train
