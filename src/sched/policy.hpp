// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "sched/plan.hpp"

namespace dos::sched {

/// What a user may ask of a policy; each ignores what is not its own.
struct PolicyOptions {
  std::optional<Index> stride{};  ///< every stride-th subgroup on the GPU
  std::optional<double> share{};  ///< part of the parameters on the GPU, 0 .. 1
  std::optional<Index> window{};  ///< streamed subgroups on a GPU at once
  bool published = false;         ///< model the published code instead of this project's runtime
  bool residents = true;          ///< states may stay on the GPU
  bool half_duplex = false;       ///< one direction of the link at a time
  /// Not for users: a search whose first plans are all slower than this ends with the best of them.
  std::optional<units::Seconds> hopeless{};

  bool operator==(const PolicyOptions&) const = default;

  /// Throws Error naming the first option out of range.
  void validate() const;
};

/// Those of PolicyOptions that not every policy reads.
struct OptionsRead {
  bool stride = false;
  bool share = false;
  bool window = false;
  bool published = false;
};

/// A policy: a pure function of the problem. It fills assignments, windows, execution and reason;
/// make_plan() adds the rest. Throws Error when it cannot place the problem.
struct Policy {
  const char* name;
  const char* summary;
  Plan (*plan)(const Problem& problem, const PolicyOptions& options);
  OptionsRead reads{};
  /// Whether a runtime may depart from the plan when a device is late; baselines are kept to.
  bool adapts = false;
  bool uses_gpus = true;  ///< for updates
  /// Whether it says itself what lives behind host memory; make_plan() does it for the others.
  bool chooses_homes = false;
};

/// Checks problem and options, plans with the named policy (sched/policy_registry.hpp), and adds
/// name, bound and replayed time. States that a GPU keeps for good (Subgroup::kept_on) are its
/// residents in every plan; the policy places the others, and PolicyOptions::residents and homes
/// are of these. Throws Error for an unknown policy, with the nearest name. Pre:
/// no StateMemory::gradients, which plan_beside_gradients() takes off.
Plan make_plan(const std::string& policy, const Problem& problem,
               const PolicyOptions& options = {});

}  // namespace dos::sched
