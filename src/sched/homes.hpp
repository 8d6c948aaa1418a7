// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "sched/plan.hpp"

namespace dos::sched {

/// Chooses homes behind host memory for states that it cannot keep. What stays in host memory
/// stays there in every step: planned residency, so that no order of updates has to help a cache.
class Homes {
 public:
  /// Throws Error when the states fit nowhere.
  explicit Homes(const Problem& problem);

  /// Whether host memory has no room for what the plan leaves there, and tiers behind it may have.
  [[nodiscard]] bool are_missing(const Plan& plan) const;
  /// Moves what host memory has no room for to the tiers behind it: spread evenly over the order,
  /// to each tier as much as it reads and writes in the same time. Host memory keeps room for what
  /// is on its way. The plan is left as it is where nothing is missing, or nothing fits.
  void place(Plan& plan) const;
  /// The same by replays: tries more and less room for what is on its way, unless the problem says
  /// how much it has (Problem::slots), and fewer tiers.
  void choose(Plan& plan) const;

 private:
  /// A tier behind host memory.
  struct Path {
    Index tier;
    double seconds;   ///< of a byte that is read and written, when many are
    double passage;   ///< of one byte, read and then written
    double latency;   ///< of a subgroup's copies there and back
    double capacity;  ///< bytes
  };
  /// What is to go where.
  struct Quotas {
    double behind = 0;            ///< bytes behind host memory
    std::vector<double> by_path;  ///< of them
  };

  [[nodiscard]] Quotas quotas(double behind, std::size_t paths) const;
  [[nodiscard]] double on_the_way(const Plan& plan, const Quotas& quotas) const;
  [[nodiscard]] double update_time(const Plan& plan) const;
  [[nodiscard]] std::optional<Plan> placed(const Plan& plan, double factor,
                                           std::size_t paths) const;
  [[nodiscard]] std::optional<std::size_t> next_path(const Quotas& quotas,
                                                     const std::vector<double>& had,
                                                     double bytes) const;

  const Problem& problem_;
  std::vector<Path> paths_;  ///< the fastest first
  double bound_ = 0;         ///< seconds
};

/// The tiers behind host memory, the one that reads and writes a byte soonest first.
std::vector<Index> fastest_tiers(const Problem& problem);

/// The problem without those of its tiers behind host memory that `kept` does not name; the order
/// of the others stays.
Problem with_tiers(const Problem& problem, const std::vector<Index>& kept);

}  // namespace dos::sched
