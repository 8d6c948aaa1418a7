// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sched/policy.hpp"

namespace dos::sched {

/// Subgroups of a rank that a plan may have. A policy replays a plan some dozens of times, each in
/// a fraction of a second with so many; StarPU needs a second a step for the tasks of so many.
inline constexpr Index kMostPieces = 100'000;

/// Throws Error unless parts of these sizes, each cut into pieces of at most `size`, are at most
/// kMostPieces pieces. `option` is "--subgroup" or "sched.subgroup_params =": the message names
/// it with the size, and the smallest one that works. Pre: sizes >= 1, size >= 1.
void expect_few_subgroups(const std::vector<Index>& parts, Index size, const std::string& option);

/// Sizes of subgroups, in parameters. Large ones stay on GPUs: an update of them hides what a task
/// costs, and their memory is allocated in few pieces. Small ones among them are streamed or
/// updated by the CPU: copies and workers come out even.
struct Cut {
  Index size = 0;          ///< of the small ones, at most
  Index large = 0;         ///< large subgroups, spread evenly over the others
  Index large_params = 0;  ///< of each of them

  /// Parameters of the large ones.
  [[nodiscard]] Index in_large() const { return large * large_params; }
  bool operator==(const Cut&) const = default;
};

/// The subgroups of `params` parameters; depths are places. Small ones are as few as Cut::size
/// allows, all of one size but perhaps the last, which is smaller: equal sizes let a runtime use
/// memory of the GPU again. Pre: params > cut.in_large() >= 0, cut.size >= 1.
std::vector<Subgroup> cut_into(Index params, const Cut& cut);

/// The cut with which the policy's plan has the shortest replay; of those within 0.2 % the one with
/// the fewest subgroups, which makes the fewest tasks. `problem` is complete but for its subgroups.
/// Large subgroups are for policies that adapt (Policy::adapts), and where half of the
/// states stay on GPUs. Throws
/// Error when no cut can be planned.
Cut choose_cut(const std::string& policy, Problem problem, Index params,
               const PolicyOptions& options);

}  // namespace dos::sched
