// SPDX-License-Identifier: Apache-2.0
#include "optim/elementwise.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "codelets/update/update_codelet.hpp"

namespace dos::optim {

ElementwiseOptimizer::ElementwiseOptimizer(rt::Session& session,
                                           const tensor::ParameterSet& parameters,
                                           const OptimizerOptions& options,
                                           tensor::StateHomes* homes)
    : parameters_(parameters),
      options_(options),
      homes_(homes),
      rule_(find_rule(options.rule)),
      norms_(session, parameters, options.clip) {
  options_.validate();
  const tensor::Buffers buffers =
      tensor::BufferPlan(parameters.layout(), {}, parameters.ownership()).states;
  const auto& subgroups = parameters.layout().subgroups;
  for (const char* name : rule_.info->states)
    states_.emplace_back(session, parameters.layout(), buffers, name, MemoryCategory::kStates,
                         DType::kF32, homes_);
  for (const shape::Subgroup& subgroup : subgroups) depths_ = std::max(depths_, subgroup.depth);
  for (Index i = 0; i < std::ssize(subgroups); ++i)
    if (subgroups[static_cast<std::size_t>(i)].trained) order_.push_back(i);
  std::ranges::stable_sort(order_, {},
                           [&](Index i) { return subgroups[static_cast<std::size_t>(i)].depth; });
}

codelets::StepBytes ElementwiseOptimizer::step_of(Index step, double learning_rate,
                                                  bool decay) const {
  return rule_.info->step({.beta1 = options_.beta1,
                           .beta2 = options_.beta2,
                           .momentum = options_.momentum,
                           .eps = options_.eps,
                           .weight_decay = decay ? options_.weight_decay : 0},
                          static_cast<float>(learning_rate), step);
}

void ElementwiseOptimizer::submit_step(rt::Submitter& submitter, Index step, double learning_rate,
                                       const rt::Handle& norm) const {
  norms_.submit(submitter, norm, listener_);
  submitter.set_phase(rt::Phase::kUpdate);
  std::map<std::pair<double, bool>, codelets::StepBytes> steps;  // by factor and decay
  const auto& subgroups = parameters_.layout().subgroups;
  for (const Index i : order_) {
    const shape::Subgroup& subgroup = subgroups[static_cast<std::size_t>(i)];
    const auto [bytes, is_new] = steps.try_emplace({subgroup.lr_factor, subgroup.decay});
    if (is_new) bytes->second = step_of(step, learning_rate * subgroup.lr_factor, subgroup.decay);
    if (parameters_.ownership().owns(i)) submit_update(submitter, i, bytes->second, step);
    if (listener_ != nullptr) listener_->updated(i);
  }
}

const rt::Handle* ElementwiseOptimizer::clip_factor(Index subgroup) const {
  const auto& subgroups = parameters_.layout().subgroups;
  return subgroups[static_cast<std::size_t>(subgroup)].trained ? &norms_.factor_of(subgroup)
                                                               : nullptr;
}

void ElementwiseOptimizer::submit_update(rt::Submitter& submitter, Index index,
                                         const codelets::StepBytes& bytes, Index step) const {
  const shape::Subgroup& subgroup = parameters_.layout().subgroups[static_cast<std::size_t>(index)];
  std::vector<const rt::Handle*> states;
  for (const tensor::SubgroupHandles& handles : states_) states.push_back(&handles[index]);
  if (homes_ != nullptr) homes_->open(index);
  codelets::submit_update(
      submitter, rule_.number, bytes,
      {.parameters = parameters_.values()[index],
       .states = states,
       .working = parameters_.has_working() ? &parameters_.working()[index] : nullptr,
       .gradient = parameters_.sums()[index],
       .clip = norms_.factor_of(index),
       .sums = sums_.empty() ? nullptr : sums_[static_cast<std::size_t>(index)].get(),
       .step = step},
      {.priority = static_cast<int>(depths_ - subgroup.depth), .label = subgroup.name.c_str()});
  if (homes_ != nullptr) homes_->store(index);
}

}  // namespace dos::optim
