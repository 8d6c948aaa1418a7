// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/planner.hpp"

namespace dos::planner {

/// States of a rank that have one home and one device.
struct HomePart {
  std::string home;    ///< "host", "gpu 0", or a tier of the machine file
  std::string device;  ///< "cpu", "gpu 0"
  units::Bytes states;
};

/// What a tier behind host memory keeps and moves, of all ranks of a node.
struct TierUse {
  std::string name;
  units::Bytes states;
  units::Bytes files;  ///< that a training reserves for them
  units::Bytes capacity;
  units::Bytes read;     ///< in a step, of states and of activations that are moved there
  units::Bytes written;  ///< in a step
  units::Bytes a_day;    ///< written, at the predicted step time
  /// Until what the maker promises has been written (Tier::endurance), where the machine file says.
  std::optional<double> days{};
};

/// Only pairs that have states; homes in the order of the tiers, host memory first.
std::vector<HomePart> parts_of(const sched::Problem& problem, const sched::Plan& plan);

/// A rank's states whose home has this name.
units::Bytes states_on(const std::string& home, const sched::Problem& problem,
                       const sched::Plan& plan);

/// The disk that has most to do, and for how long it reads and writes what a step moves over it,
/// states and activations. "": none moves anything.
struct BusyDisk {
  std::string name;
  units::Seconds busy{0};
};
BusyDisk busiest_disk(const perfmodels::Machine& machine, const Forecast& forecast);

/// What disks of activations have to do beside them while forward and backward run: writes of the
/// last update that slots still hold, reads that fill these for the next one, and a step's part of
/// a checkpoint that comes to such a disk. The rest of the states comes and goes behind them, or
/// where nothing is clipped beside them: the step counts it (busiest_disk()). Of one device; where
/// there are several disks, as the busiest one has it.
DiskLoad traffic_beside_activations(const Request& request, const Forecast& forecast);

/// What activations may take of their disks beside the states there and, on all disks together, the
/// files of states that train_gpt reserves, which it shares by room; below 0: these lack so much.
/// Pre: a disk; the forecast has its plan.
units::Bytes room_for_activations(const perfmodels::Machine& machine, const Forecast& forecast);
/// Whether disks have room for states, their files, and activations: sets disk_lacks and full_disk.
/// Pre: all else of the forecast but its step is there.
void hold_against_disks(const perfmodels::Machine& machine, Forecast& forecast);

/// Every tier behind host memory that the machine has, used or not.
std::vector<TierUse> uses_of_tiers(const Forecast& forecast);

/// Of the parts and uses: lines of the report; "" for a machine without such tiers.
std::string homes_text(const Forecast& forecast);

}  // namespace dos::planner
