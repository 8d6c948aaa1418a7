// SPDX-License-Identifier: Apache-2.0
#include "optim/elementwise.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "codelets/update/update_codelet.hpp"
#include "optim/priority.hpp"

namespace dos::optim {

class ElementwiseOptimizer::Steps {
 public:
  Steps(const ElementwiseOptimizer& optimizer, Index step, double learning_rate)
      : optimizer_(optimizer), step_(step), learning_rate_(learning_rate) {}

  [[nodiscard]] Index number() const { return step_; }
  [[nodiscard]] const codelets::StepBytes& of(const shape::Subgroup& subgroup) {
    const auto [bytes, is_new] = steps_.try_emplace({subgroup.lr_factor, subgroup.decay});
    if (is_new)
      bytes->second =
          optimizer_.step_of(step_, learning_rate_ * subgroup.lr_factor, subgroup.decay);
    return bytes->second;
  }

 private:
  const ElementwiseOptimizer& optimizer_;
  Index step_;
  double learning_rate_;
  std::map<std::pair<double, bool>, codelets::StepBytes> steps_;
};

ElementwiseOptimizer::ElementwiseOptimizer(rt::Session& session, tensor::ParameterSet& parameters,
                                           const OptimizerOptions& options,
                                           tensor::StateHomes* homes, std::span<const Index> ahead)
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
                         DType::kF32, homes_, tensor::Use::kUpdates);
  for (const shape::Subgroup& subgroup : subgroups) depths_ = std::max(depths_, subgroup.depth);
  for (Index i = 0; i < std::ssize(subgroups); ++i)
    if (subgroups[static_cast<std::size_t>(i)].trained) order_.push_back(i);
  std::ranges::stable_sort(order_, {},
                           [&](Index i) { return subgroups[static_cast<std::size_t>(i)].depth; });
  any_awaited_ = std::ranges::any_of(
      order_, [&](Index i) { return parameters.ownership().owns(i) && is_awaited(i); });
  add_banks(session, ahead);
}

void ElementwiseOptimizer::add_banks(rt::Session& session, std::span<const Index> ahead) {
  if (ahead.empty()) return;
  require(options_.clip > 0, "updates that wait for the norm of all gradients");
  ahead_ = std::ssize(ahead);
  for (const Index i : ahead) {
    require(parameters_.ownership().owns(i) && clip_factor(i) != nullptr &&
                (homes_ == nullptr || !homes_->home_of(i).is_elsewhere()),
            "a subgroup that this rank updates in memory");
    parameters_.values_in_banks().add_bank(session, i);
    for (tensor::SubgroupHandles& handles : states_) handles.add_bank(session, i);
  }
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
                                       const rt::Handle& norm) {
  Steps steps(*this, step, learning_rate);
  const auto goes_ahead = [&](Index i) { return goes_ahead_ && values().has_bank(i); };
  submitter.set_phase(rt::Phase::kUpdate);
  for (const Index i : order_)
    if (goes_ahead(i)) submit_update(submitter, i, steps, Turn::kAhead);
  // Beside what GPUs compute, updates that wait for no other have something to hide behind; where
  // some have slots, these alone, as the others would keep the GPUs from them.
  const bool runs_beside =
      norms_.are_own() && submitter.session().cuda_workers() > 0 && !any_awaited_;
  norms_.submit(submitter, norm, listener_, goes_ahead_ && ahead_ > 0,
                [&](Index i) { return runs_beside || is_awaited(i); });
  submitter.set_phase(rt::Phase::kUpdate);
  for (const Index i : order_) {
    if (parameters_.ownership().owns(i))
      submit_update(submitter, i, steps, goes_ahead(i) ? Turn::kAgain : Turn::kOnly);
    if (listener_ != nullptr) listener_->updated(i);
  }
}

const rt::Handle* ElementwiseOptimizer::clip_factor(Index subgroup) const {
  const auto& subgroups = parameters_.layout().subgroups;
  return subgroups[static_cast<std::size_t>(subgroup)].trained ? &norms_.factor_of(subgroup)
                                                               : nullptr;
}

bool ElementwiseOptimizer::is_awaited(Index subgroup) const {
  return homes_ != nullptr && norms_.are_own() && homes_->home_of(subgroup).is_passing();
}

void ElementwiseOptimizer::submit_update(rt::Submitter& submitter, Index index, Steps& steps,
                                         Turn turn) {
  const shape::Subgroup& subgroup = parameters_.layout().subgroups[static_cast<std::size_t>(index)];
  const bool in_place = turn == Turn::kOnly;
  std::vector<const rt::Handle*> old_states;
  std::vector<const rt::Handle*> states;
  for (const tensor::SubgroupHandles& handles : states_) {
    if (!in_place) old_states.push_back(&handles[index]);
    states.push_back(in_place ? &handles[index] : &handles.bank(index));
  }
  const rt::Handle& factor = norms_.factor_of(index);
  if (homes_ != nullptr) homes_->open(index, norms_.are_own() ? &factor : nullptr);
  codelets::submit_update(
      submitter, rule_.number, steps.of(subgroup),
      {.parameters = in_place ? values()[index] : values().bank(index),
       .states = states,
       .working = parameters_.has_working() ? &parameters_.working()[index] : nullptr,
       .gradient = parameters_.sums()[index],
       .clip = turn == Turn::kAhead ? norms_.one() : factor,
       .sums = sums_.empty() ? nullptr : sums_[static_cast<std::size_t>(index)].get(),
       .step = steps.number(),
       .old_parameters = in_place ? nullptr : &values()[index],
       .old_states = old_states,
       .is_redone = turn == Turn::kAgain},
      {.priority = static_cast<int>(depths_ - subgroup.depth) +
                   (is_awaited(index) && !submitter.session().has_devices() ? kPromptPriority : 0),
       .label = subgroup.name.c_str(),
       .keeper = homes_ == nullptr ? rt::kAnyWorker : homes_->home_of(index).keeper,
       .condition = turn == Turn::kAgain ? norms_.is_clipped() : rt::Condition{}});
  if (homes_ != nullptr) homes_->store(index);
  if (turn != Turn::kAgain) return;
  parameters_.values_in_banks().flip(index);
  for (tensor::SubgroupHandles& handles : states_) handles.flip(index);
}

}  // namespace dos::optim
