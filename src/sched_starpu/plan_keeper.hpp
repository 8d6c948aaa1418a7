// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sched_starpu/device_rates.hpp"
#include "sched_starpu/gpu_window.hpp"
#include "sched_starpu/plan_trial.hpp"
#include "sched_starpu/planning.hpp"

namespace dos::sched_starpu {

/// The plan that holds, and when another is due: at the beginning of a step in which rates have
/// changed, subgroups have come, or residents are not where the plan has them. Then one PlanOrder
/// is out at a time; until its outcome is adopted, what holds is the plan before. While residents
/// come to their GPUs each step has a plan of its own that leads there (sched/transition.hpp).
/// A plan by which updates take too long is tried against all of them on the CPU (PlanTrial).
class PlanKeeper {
 public:
  /// Throws Error for an option out of range.
  PlanKeeper(std::string policy, sched::PolicyOptions options, const Tuning& tuning = {});

  /// A step from the second on begins. `homes`: by subgroup, the GPU on which its states stay, or
  /// -1; of all that have arrived, so its size is their number. `last`: of the step before, if its
  /// updates came behind backward.
  void begin_step(const DeviceRates& rates, const std::vector<Index>& homes,
                  const StepTimes& last = {});
  /// Whether a plan is to be made, and nobody makes it.
  [[nodiscard]] bool is_due() const { return due_ && !is_out_; }
  /// What is to be planned. `problem` and `subgroups` as in PlanOrder. Pre: is_due().
  [[nodiscard]] PlanOrder order(sched::Problem problem, std::vector<Index> subgroups);
  /// The plan that holds from now on, or why there is none.
  void adopt(PlanOutcome outcome);

  /// Whether this step goes by a plan.
  [[nodiscard]] bool has_step_plan() const { return step_plan_.has_value(); }
  /// Where the subgroup goes in this step; the CPU where no plan says.
  [[nodiscard]] Place place(Index subgroup) const { return place_in(step_plan_, subgroup); }
  /// The same once all residents are at home.
  [[nodiscard]] Place goal(Index subgroup) const { return place_in(plan_, subgroup); }
  /// How long after the step's first update the last one of a device ends. Pre: has_step_plan().
  [[nodiscard]] units::Seconds end(Device device) const { return step_ends_[device.number()]; }
  /// The rate that the plan was made with. Pre: plan().
  [[nodiscard]] units::ParamsPerSecond rate(Device device) const {
    return rate_in(problem_->rates, device);
  }

  /// How many updates a GPU may have at work at once; one of each before there is a plan.
  [[nodiscard]] GpuWindow::Limits limits(Index gpu) const;
  /// Updates of the CPU that run or fetch their gradients at once, when `workers` are at work.
  [[nodiscard]] Index gradients_ahead(Index workers) const;

  [[nodiscard]] const std::optional<sched::Plan>& plan() const { return plan_; }
  [[nodiscard]] const sched::PolicyOptions& options() const { return options_; }
  /// Whether the plan is for the end of a forward that begins beside the updates.
  [[nodiscard]] bool is_for_forward() const { return plan_ && !problem_->forward.empty(); }
  /// Whether the plan has model, gradients and updates take a GPU's memory from each other.
  [[nodiscard]] bool is_memory_short() const { return is_short_; }
  /// Why there is no plan; empty where there is one, and before the second step.
  [[nodiscard]] const std::string& obstacle() const { return obstacle_; }
  /// The plan and the rates that it was made with; empty without one.
  [[nodiscard]] std::string in_words() const;

 private:
  [[nodiscard]] Place place_in(const std::optional<sched::Plan>& plan, Index subgroup) const;
  [[nodiscard]] GpuWindow::Limits limits_of_memory(Index gpu) const;
  /// Whether the plan is one that PlanTrial may doubt: the policy's own choice to stream through
  /// GPUs. Residents would have to move for it.
  [[nodiscard]] bool may_be_tried() const;
  /// What all updates take on the CPU at least. Pre: plan().
  [[nodiscard]] units::Seconds least_on_cpu() const;

  const std::string policy_;
  const sched::PolicyOptions options_;
  const Tuning tuning_;
  std::optional<sched::Problem> problem_;  ///< that was planned last
  std::vector<Index> positions_;           ///< by subgroup, in problem_
  std::optional<sched::Plan> plan_;
  std::vector<units::Seconds> ends_;
  std::optional<sched::Plan> step_plan_;  ///< of this step: plan_ once all residents are at home
  std::vector<units::Seconds> step_ends_;
  /// By GPU, what is free when all gradients are there.
  std::vector<units::Bytes> beside_backward_;
  std::vector<units::Seconds> forward_;    ///< DeviceRates::forward(), as the last step had it
  std::vector<GpuWindow::Limits> limits_;  ///< by GPU, but for the window; once there is a plan
  PlanTrial trial_;
  bool is_by_plan_ = false;    ///< the step, from its beginning on
  bool changes_side_ = false;  ///< the plan that is due is what the trial asks for
  bool due_ = false;
  bool replans_ = false;  ///< what is due is another plan, not only that of the step
  bool is_out_ = false;   ///< an order is
  bool is_short_ = false;
  std::string obstacle_;
};

}  // namespace dos::sched_starpu
