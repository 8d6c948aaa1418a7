// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "optim/optimizer_options.hpp"
#include "rt/submitter.hpp"
#include "tensor/parameter_listener.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::optim {

/// Turns the gradients of a step into the next parameters, by tasks. A rule may look at one element
/// at a time (ElementwiseOptimizer) or at whole matrices, whatever subgroups they are cut into.
///
/// A gradient that is not finite stops all later updates that it could reach: parameters and states
/// stay what they were.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// `listener` must outlive the object; null: none.
  virtual void set_listener(tensor::ParameterListener* listener) = 0;

  /// Where the updates of the next submit_step() leave sums of what they write
  /// (codelets/update/update_sums.hpp), as far as they make any: prepared, by subgroup, null where
  /// there is none. They must outlive the tasks. Empty: nowhere. A rule need not make them.
  virtual void set_sums(std::span<const std::unique_ptr<rt::Handle>> /*sums*/) {}

  /// Whether updates of the next submit_step() that can go ahead of the clip factor do: they take
  /// it for 1, and are made again where it is not, of the same values. Not a bit depends on it.
  /// Of subgroups that have two banks (make_optimizer()).
  virtual void set_goes_ahead(bool /*on*/) {}
  /// Updates that go ahead in a step, if they may.
  [[nodiscard]] virtual Index going_ahead() const { return 0; }

  /// Submits step `step` (counted from 1): norms, clip factor, the updates of owned subgroups in
  /// the order in which the next forward pass needs them, each with `learning_rate` times its
  /// factor. What is frozen has no part in any of it. norm (FP64 [1]) receives the global gradient
  /// norm.
  virtual void submit_step(rt::Submitter& submitter, Index step, double learning_rate,
                           const rt::Handle& norm) = 0;

  /// Drops what GPUs hold of values that only the tasks submitted so far read (rt::drop_copies()).
  virtual void drop_dead() {}

  /// FP32 [1]: what the subgroup's next update waits for besides access to its parameters and
  /// states. Null where it is frozen.
  [[nodiscard]] virtual const rt::Handle* clip_factor(Index subgroup) const = 0;

  /// The rule's name.
  [[nodiscard]] virtual const char* rule() const = 0;
  /// Names of the rule's states: what checkpoints hold beside the parameters.
  [[nodiscard]] virtual std::span<const char* const> state_names() const = 0;
  /// The handles of state `index` of state_names(): FP32, one element a parameter.
  [[nodiscard]] virtual const tensor::SubgroupHandles& state(Index index) const = 0;
};

/// The optimizer of options.rule. `parameters` must outlive it, and so must `homes`, which may keep
/// states elsewhere than in memory; null: nobody does. `ahead`: subgroups that get a second bank of
/// parameters and states, so that their updates need not wait for the clip factor; owned, trained,
/// in memory, with working parameters of their own, with clipping. Throws Error for an unknown rule
/// or an option out of range.
std::unique_ptr<Optimizer> make_optimizer(rt::Session& session, tensor::ParameterSet& parameters,
                                          const OptimizerOptions& options,
                                          tensor::StateHomes* homes = nullptr,
                                          std::span<const Index> ahead = {});

/// Bytes that make_optimizer() will register.
Index state_bytes(const shape::Layout& layout, const OptimizerOptions& options,
                  const tensor::Ownership& ownership = {});

}  // namespace dos::optim
