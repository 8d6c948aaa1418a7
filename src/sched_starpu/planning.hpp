// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sched/plan.hpp"
#include "sched/policy.hpp"
#include "sched_starpu/tuning.hpp"

namespace dos::sched_starpu {

/// Everything that a plan depends on, as a copy: planning takes milliseconds, and nobody has to
/// wait for it.
struct PlanOrder {
  std::string policy;
  sched::PolicyOptions options;
  sched::Problem problem;  ///< homes: where states are when the step begins
  std::vector<Index>
      subgroups;  ///< their indices (subgroup_registry.hpp), in the order of the problem
  /// The plan that holds, if it is for the same subgroups.
  std::optional<sched::Plan> current;
  /// Whether rates have changed, so that another plan may be better.
  bool replans = true;
  Tuning tuning{};

  /// Whether it asks for the same, where the plan that holds is the same.
  [[nodiscard]] bool asks_as(const PlanOrder& other) const {
    return options == other.options && problem == other.problem && subgroups == other.subgroups &&
           current.has_value() == other.current.has_value() && replans == other.replans;
  }
};

struct PlanOutcome {
  PlanOrder order;
  std::optional<sched::Plan> plan;  ///< nothing when the policy cannot plan
  std::string obstacle;             ///< why it cannot
  /// Whether model and gradients do not fit a GPU beside what updates need, so that some go.
  bool is_short = false;
  /// By device: when the plan has its last update end, from the step's first on.
  std::vector<units::Seconds> ends{};
  /// Of the step that begins, on the way to the plan from where the states are, likewise.
  std::optional<sched::Plan> step{};
  std::vector<units::Seconds> step_ends{};
};

/// How long the links are busy when residents go where `next` has them instead of `now`: GPUs and
/// directions beside each other.
units::Seconds time_to_move(const sched::Problem& problem, const sched::Plan& now,
                            const sched::Plan& next);

/// Plans, and the step that begins. The plan that holds stays unless the new one is faster by more
/// than Tuning::gain, and gains within Tuning::steps_to_gain what moving residents costs. A policy
/// that cannot plan is an outcome; nothing is thrown but for broken contracts.
PlanOutcome carry_out(PlanOrder order);

}  // namespace dos::sched_starpu
