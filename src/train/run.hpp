// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/train_config.hpp"
#include "offload/home_plan.hpp"
#include "ranks/share.hpp"
#include "shape/layout.hpp"
#include "shape/model_config.hpp"

namespace dos::train {

/// What is decided of a run: what is trained, how, cut into which subgroups, and which part of it
/// this rank has. What is decided later makes another run.
struct Run {
  config::TrainConfig config;
  shape::ModelConfig model;
  shape::Layout layout;
  ranks::RankShare share{};

  /// Pre: the same model, cut the same way.
  [[nodiscard]] Run with(const config::TrainConfig& other) const;
  [[nodiscard]] Run with(const ranks::RankShare& other) const;
};

/// The run of a configuration on one rank. Throws Error as shape::mark_trained() and
/// shape::cut_into_subgroups().
Run make_run(const config::TrainConfig& config, const shape::ModelConfig& model);

/// Which states of the rank live on the disks of sched.disks, with so many workers that update.
/// Throws Error as offload::plan_homes().
offload::HomePlan plan_homes(const Run& run, Index workers);

}  // namespace dos::train
