// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "simulated/simulated_disks.hpp"
#include "simulated/step_task.hpp"

namespace dos::bench {

/// Where the states of a simulated step live: on disks, in memory of the GPU that is theirs alone,
/// or, of those that the task names for neither, where they are registered.
class StepHomes {
 public:
  /// `states`: handles by subgroup, which outlive the object; nothing has used them.
  StepHomes(const StepTask& task, const std::vector<std::vector<starpu_data_handle_t>>& states);

  /// An update of the subgroup is about to be submitted, that waits for `last` besides.
  void before_update(std::size_t subgroup, starpu_data_handle_t last, starpu_task& update);
  /// It was submitted.
  void after_update(std::size_t subgroup);
  void end_step();
  /// Waits until disks have nothing to do.
  void settle();
  /// Adds what disks did so far, times `sign`.
  void count(double sign, StepResult& result) const;

 private:
  std::optional<SimulatedDisks> disks_;
  std::map<std::size_t, std::size_t> place_on_disk_;  ///< by subgroup
  std::set<std::size_t> on_gpu_;
  bool are_due_by_turns_;                  ///< updates, else all at once
  std::vector<std::uint32_t> gpu_worker_;  ///< it alone, as bits
};

}  // namespace dos::bench
