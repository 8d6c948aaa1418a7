// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sched/assignment.hpp"
#include "sched/bound.hpp"

namespace dos::sched {

/// How the CPU makes 16-bit working parameters.
enum class Downcast : std::uint8_t {
  kFused,       ///< in the update itself
  kBlocking,    ///< a pass after each update, then the copy, before the next update
  kBackground,  ///< a pass on a thread of its own, for all subgroups since the last GPU update
};

/// How a plan is carried out. The defaults are this project's runtime; the others are what the
/// published code does.
struct Execution {
  bool half_duplex = false;        ///< states in and states out exclude each other
  bool lockstep = false;           ///< one host thread walks over the subgroups in their order
  bool cpu_team = false;           ///< all CPU workers on one subgroup, then the next
  bool joins_copies = true;        ///< the update ends when the last copy has ended
  bool published_kernels = false;  ///< rates of the published passes (Rates::published)
  Downcast downcast = Downcast::kFused;
  Index on_the_way = 0;  ///< states that live behind host memory, there at once; 0: as many as fit
};

/// What one rank does with its subgroups. A plain value: the same problem gives the same plan.
struct Plan {
  std::string policy;
  std::string reason;                   ///< one line: why it looks like this
  std::vector<Assignment> assignments;  ///< by subgroup
  /// By GPU: how many streamed subgroups may hold GPU memory at once, and how much they may hold.
  std::vector<Index> window;
  std::vector<units::Bytes> window_memory;
  Execution execution;

  Bound bound;
  units::Seconds time;  ///< of the replay
  units::Seconds end;   ///< what plans are compared by (planned_end_by())
  /// What weights, gradients that wait and updates lack of a GPU beside each other
  /// (sched/passing.hpp), and what forward and backward wait for it.
  units::Bytes overflow{0};
  units::Seconds refetch{0};

  /// Of update, forward and backward, what depends on the plan.
  [[nodiscard]] units::Seconds cost() const { return end + refetch; }
  /// Subgroups of a device in the order of execution, which is the order of forward.
  [[nodiscard]] std::vector<Index> cpu_order() const;
  [[nodiscard]] std::vector<Index> gpu_order(Index gpu) const;
  /// Part of the parameters whose assignment `is` so (&is_resident, ...), 0 .. 1.
  [[nodiscard]] double share(const Problem& problem, bool (*is)(const Assignment&)) const;
  /// Part of the parameters that GPUs update.
  [[nodiscard]] double gpu_share(const Problem& problem) const;
};

/// Whether states of the plan live in a tier that only keeps them.
bool lives_behind_host(const Problem& problem, const Plan& plan);

/// Throws Error when host memory, or a tier that only keeps states, has no room for those that are
/// at home there, or in host memory when the step begins, with the largest on its way through it.
void expect_homes_fit(const Problem& problem, const std::vector<Assignment>& assignments);

/// One line: "dos: 5120 M parameters, 54.6 % on the GPU (0.0 % resident), window 4, ...".
std::string describe(const Plan& plan, const Problem& problem);

}  // namespace dos::sched
