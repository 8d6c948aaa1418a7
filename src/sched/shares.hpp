// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sched/bound.hpp"
#include "sched/policy.hpp"

namespace dos::sched {

/// Which subgroups a plan keeps on GPUs.
enum class Residents : std::uint8_t {
  kAnywhere,  ///< in front, or spread
  kLargest,   ///< so that what is streamed or updated by the CPU is small
};

/// What a search for shares goes over.
struct Scope {
  const Problem& problem;
  const PolicyOptions& options;
  Residents residents;
  Index size;  ///< of what is streamed, at most

  [[nodiscard]] units::Params streamed() const { return units::Params(static_cast<double>(size)); }
};

/// Residents anywhere.
Scope whole_scope(const Problem& problem, const PolicyOptions& options);
/// Residents are the largest where that makes what is streamed less than half as large.
Scope scope_by_size(const Problem& problem, const PolicyOptions& options);

/// What each GPU gets.
struct Shares {
  std::vector<units::Bytes> resident;
  std::vector<units::Params> streamed;

  [[nodiscard]] units::Params all_streamed() const;
  /// Whether there are both.
  [[nodiscard]] bool mixes() const;
};

/// `factor` times as much that is streamed.
Shares scaled(const Shares& shares, double factor);

/// The optimum's shares; residents leave room for the window of what is streamed.
Shares shares_of(const Scope& scope, const Bound& bound);

/// `cpu` for the CPU; of the rest as many residents as there is room for, what is left streamed
/// evenly. Nothing is for the CPU where a worker needs longer for one subgroup than GPUs for all.
Shares shares_beside(const Scope& scope, units::Params cpu);

/// `start` with room for a window of `window`: so much fewer residents, and more that is streamed.
Shares with_window(const Scope& scope, const Shares& start, Index window);

}  // namespace dos::sched
