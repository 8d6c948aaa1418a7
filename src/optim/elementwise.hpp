// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "optim/gradient_norms.hpp"
#include "optim/optimizer.hpp"
#include "optim/rules.hpp"

namespace dos::optim {

/// An element-wise update rule over subgroups, one task each: with clipping it waits for the global
/// norm; without, for its own subgroup's gradient only. With clipping one that goes ahead of the
/// norm makes the next bank of its subgroup of the present one; behind the norm follows the same
/// update once more, which runs only if the clip factor is not 1
/// (docs/adr/0042-updates-go-ahead-of-the-norm.md).
class ElementwiseOptimizer final : public Optimizer {
 public:
  /// As make_optimizer().
  ElementwiseOptimizer(rt::Session& session, tensor::ParameterSet& parameters,
                       const OptimizerOptions& options, tensor::StateHomes* homes = nullptr,
                       std::span<const Index> ahead = {});

  void set_listener(tensor::ParameterListener* listener) override { listener_ = listener; }
  void set_sums(std::span<const std::unique_ptr<rt::Handle>> sums) override { sums_ = sums; }
  void set_goes_ahead(bool on) override { goes_ahead_ = on; }
  [[nodiscard]] Index going_ahead() const override { return ahead_; }
  void drop_dead() override { norms_.drop_sums(); }
  void submit_step(rt::Submitter& submitter, Index step, double learning_rate,
                   const rt::Handle& norm) override;
  [[nodiscard]] const rt::Handle* clip_factor(Index subgroup) const override;
  [[nodiscard]] const char* rule() const override { return rule_.info->name; }
  [[nodiscard]] std::span<const char* const> state_names() const override {
    return rule_.info->states;
  }
  [[nodiscard]] const tensor::SubgroupHandles& state(Index index) const override {
    return states_[static_cast<std::size_t>(index)];
  }

 private:
  /// The numbers of a step that subgroups share, by factor and decay.
  class Steps;
  enum class Turn { kOnly, kAhead, kAgain };
  /// Whether others wait for memory that the subgroup's states take until its update has run, which
  /// it can beside backward.
  [[nodiscard]] bool is_awaited(Index subgroup) const;
  void submit_update(rt::Submitter& submitter, Index subgroup, Steps& steps, Turn turn);
  [[nodiscard]] codelets::StepBytes step_of(Index step, double learning_rate, bool decay) const;
  [[nodiscard]] const tensor::SubgroupHandles& values() const { return parameters_.values(); }
  void add_banks(rt::Session& session, std::span<const Index> ahead);

  tensor::ParameterSet& parameters_;
  OptimizerOptions options_;
  tensor::StateHomes* homes_;
  Rule rule_;
  GradientNorms norms_;
  std::vector<tensor::SubgroupHandles> states_;
  std::vector<Index> order_;  ///< subgroups that are trained, by depth
  Index depths_ = 0;
  std::span<const std::unique_ptr<rt::Handle>> sums_;  ///< by subgroup, or empty
  tensor::ParameterListener* listener_ = nullptr;
  bool any_awaited_ = false;  ///< is_awaited() of some that the rank owns
  Index ahead_ = 0;           ///< subgroups that have two banks
  bool goes_ahead_ = true;
};

}  // namespace dos::optim
