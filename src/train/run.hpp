// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "config/train_config.hpp"
#include "offload/disk_place.hpp"
#include "offload/home_plan.hpp"
#include "ranks/share.hpp"
#include "rt/memory_ledger.hpp"
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
  /// Bytes of host memory for states, where others live on disks; 0: no more than their slots.
  /// Of sched.host_memory; where that is auto, 0 until fit::choose_homes() has looked.
  Index state_memory = 0;
  /// Bytes that are free for the rank on each of sched.disks; empty: nobody has looked.
  std::vector<Index> disk_free{};
  /// Bytes of each device for states that live there where host memory has no room for all: those
  /// of fit::Room::devices. fit::choose_homes() looks.
  std::vector<Index> device_state_memory{};
  /// Subgroups whose updates may go ahead of the clip factor (optim::make_optimizer()).
  std::vector<Index> ahead{};
  /// Bytes of host memory that it leaves, for activations that a disk takes no more
  /// (offload::DiskActivations); nullopt: until fit::choose_ahead() has looked.
  std::optional<Index> spare_memory{};

  /// Pre: the same model, cut the same way.
  [[nodiscard]] Run with(const config::TrainConfig& other) const;
  [[nodiscard]] Run with(const ranks::RankShare& other) const;
  /// Those of sched.disks, with what is free there.
  [[nodiscard]] std::vector<offload::DiskPlace> disks() const;
};

/// The run of a configuration on one rank. Throws Error as shape::mark_trained() and
/// shape::cut_into_subgroups().
Run make_run(const config::TrainConfig& config, const shape::ModelConfig& model);

/// Subgroups of the rank whose updates can go ahead of the clip factor, those first whose gradients
/// backward completes first; of those in memory, with so many workers that update.
std::vector<Index> candidates_to_go_ahead(const Run& run, Index workers);

/// Bytes of the second banks that they need, by category.
rt::MemoryBytes bank_bytes(const Run& run, std::span<const Index> ahead);

/// Which states of the rank live on devices and on the disks of sched.disks, with so many workers
/// that update.
/// Throws Error as offload::plan_homes().
offload::HomePlan plan_homes(const Run& run, Index workers);
/// Bytes of files that the rank's states take on disks when all of them live there.
Index most_state_files(const Run& run);

}  // namespace dos::train
