// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "data/dataset.hpp"
#include "dist/exchange.hpp"
#include "tensor/layout.hpp"
#include "train/checkpoint.hpp"
#include "train/launch.hpp"

namespace dos::train {

/// What a rank has found out on its own before it talks to others.
struct Preparation {
  std::optional<CheckpointReader> checkpoint;
  TrainConfig config;
  data::Dataset dataset;
  models::ModelConfig model;
  tensor::Layout layout;
};

/// Reads and checks what the options name, for a run on `ranks` ranks. Throws Error.
Preparation prepare(const LaunchOptions& options, Index ranks);

/// Prepares on every rank; throws AgreedError on all when one fails, or they differ.
Preparation prepare_together(const LaunchOptions& options, dist::Exchange& exchange);

}  // namespace dos::train
