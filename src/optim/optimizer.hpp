// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "optim/registry.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::optim {

struct OptimizerOptions {
  std::string rule = "adamw";  ///< a name of known_rules()
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float momentum = 0.9F;
  float eps = 1e-8F;
  float weight_decay = 0.1F;
  float clip = 1.0F;  ///< largest global gradient norm; 0: no clipping

  /// Throws Error naming the first value out of range, whether the rule uses it or not.
  void validate() const;
};

/// An elementwise update rule over subgroups: the states, and the tasks of one step.
///
/// With clipping every update waits for the global norm; without, each waits for its own subgroup's
/// gradient only. A gradient that is not finite stops all later updates (all of the subgroup's,
/// without clipping): parameters and states stay what they were.
class Optimizer {
 public:
  /// `parameters` must outlive the object.
  Optimizer(rt::Session& session, const tensor::ParameterSet& parameters,
            const OptimizerOptions& options);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Between the ranks of a run whose subgroups are not all here.
  struct Ranks {
    /// Submits what fills the sums of squares (FP64 [1], by subgroup) of other ranks' subgroups.
    std::function<void(std::span<const rt::Handle* const> sums)> share_sums;
    /// Called when what changes a subgroup's parameters was submitted, or would have been by its
    /// owner.
    std::function<void(Index subgroup)> updated;
  };
  void set_ranks(Ranks ranks) { ranks_ = std::move(ranks); }

  /// Submits step `step` (counted from 1): norms, clip factor, one update an owned subgroup in the
  /// order in which the next forward pass needs them. norm (FP64 [1]) receives the global gradient
  /// norm.
  void submit_step(rt::Submitter& submitter, Index step, double learning_rate,
                   const rt::Handle& norm) const;

  /// The rule's name.
  [[nodiscard]] const char* rule() const { return rule_.info->name; }
  /// Names of the rule's states, and the handles of each, in the same order.
  [[nodiscard]] std::span<const char* const> state_names() const { return rule_.info->states; }
  [[nodiscard]] const tensor::SubgroupHandles& state(Index index) const {
    return states_[static_cast<std::size_t>(index)];
  }

  /// Bytes that the constructor will register.
  static Index state_bytes(const tensor::Layout& layout, const OptimizerOptions& options,
                           const tensor::Placement& placement = {});

 private:
  void submit_norms(rt::Submitter& submitter, const rt::Handle& norm) const;
  void submit_update(rt::Submitter& submitter, Index subgroup,
                     const codelets::StepBytes& step) const;
  [[nodiscard]] codelets::StepBytes step_of(Index step, double learning_rate, bool decay) const;
  [[nodiscard]] const rt::Handle& factor_of(std::size_t subgroup) const;

  const tensor::ParameterSet& parameters_;
  OptimizerOptions options_;
  Rule rule_;
  std::vector<tensor::SubgroupHandles> states_;
  std::vector<std::unique_ptr<rt::Handle>> sums_;     ///< FP64 [1] a subgroup
  std::unique_ptr<rt::Handle> global_factor_;         ///< FP32 [1]
  std::vector<std::unique_ptr<rt::Handle>> factors_;  ///< FP32 [1] a subgroup, without clipping
  std::vector<std::unique_ptr<rt::Handle>> norms_;    ///< FP64 [1] a subgroup, without clipping
  std::vector<std::size_t> order_;                    ///< subgroups by depth
  Index depths_ = 0;
  Ranks ranks_;
};

}  // namespace dos::optim
