// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/error.hpp"
#include "codelets/reduce/reduce_codelet.hpp"

namespace dos::optim {
namespace {

/// Norms come before any update; updates before nothing but each other.
constexpr int kNormPriority = 1 << 19;

std::unique_ptr<rt::Handle> make_scalar(rt::Session& session, const std::string& name, DType type) {
  return std::make_unique<rt::Handle>(
      session,
      rt::HandleSpec{
          .name = name, .type = type, .count = 1, .category = rt::MemoryCategory::kStates});
}

std::unique_ptr<rt::Handle> make_factor(rt::Session& session, const std::string& name) {
  auto factor = make_scalar(session, name, DType::kF32);
  rt::HostAccess(*factor, rt::Mode::kWrite).as<float>()[0] = 1.0F;
  return factor;
}

}  // namespace

void OptimizerOptions::validate() const {
  static_cast<void>(find_rule(rule));
  expect(beta1 >= 0 && beta1 < 1, "optim.beta1 must lie in [0, 1), got {}", beta1);
  expect(beta2 >= 0 && beta2 < 1, "optim.beta2 must lie in [0, 1), got {}", beta2);
  expect(momentum >= 0 && momentum < 1, "optim.momentum must lie in [0, 1), got {}", momentum);
  expect(eps > 0, "optim.eps must be positive, got {}", eps);
  expect(weight_decay >= 0, "optim.weight_decay must not be negative, got {}", weight_decay);
  expect(clip >= 0, "optim.clip must not be negative (0 switches clipping off), got {}", clip);
}

Optimizer::Optimizer(rt::Session& session, const tensor::ParameterSet& parameters,
                     const OptimizerOptions& options)
    : parameters_(parameters),
      options_(options),
      rule_(find_rule(options.rule)),
      global_factor_(make_factor(session, "clip_factor")) {
  options_.validate();
  const tensor::Buffers buffers =
      tensor::BufferPlan(parameters.layout(), {}, parameters.placement()).states;
  for (const char* name : rule_.info->states)
    states_.emplace_back(session, parameters.layout(), buffers, name, rt::MemoryCategory::kStates,
                         DType::kF32);
  const auto& subgroups = parameters.layout().subgroups;
  for (const tensor::Subgroup& subgroup : subgroups) {
    sums_.push_back(make_scalar(session, "sum_of_squares." + subgroup.name, DType::kF64));
    depths_ = std::max(depths_, subgroup.depth);
    if (options_.clip > 0) continue;
    factors_.push_back(make_factor(session, "factor." + subgroup.name));
    norms_.push_back(make_scalar(session, "norm." + subgroup.name, DType::kF64));
  }
  order_.resize(subgroups.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    return subgroups[a].depth < subgroups[b].depth;
  });
}

Index Optimizer::state_bytes(const tensor::Layout& layout, const OptimizerOptions& options,
                             const tensor::Placement& placement) {
  const auto subgroups = static_cast<Index>(layout.subgroups.size());
  const Index scalar = size_of(DType::kF32);
  const Index wide = size_of(DType::kF64);
  const Index states = std::ssize(find_rule(options.rule).info->states);
  const Index owned =
      tensor::element_count(layout, tensor::BufferPlan(layout, {}, placement).states);
  return states * scalar * owned + wide * subgroups + scalar +
         (options.clip > 0 ? 0 : subgroups * (scalar + wide));
}

const rt::Handle& Optimizer::factor_of(std::size_t subgroup) const {
  return factors_.empty() ? *global_factor_ : *factors_[subgroup];
}

codelets::StepBytes Optimizer::step_of(Index step, double learning_rate, bool decay) const {
  return rule_.info->step({.beta1 = options_.beta1,
                           .beta2 = options_.beta2,
                           .momentum = options_.momentum,
                           .eps = options_.eps,
                           .weight_decay = decay ? options_.weight_decay : 0},
                          static_cast<float>(learning_rate), step);
}

void Optimizer::submit_norms(rt::Submitter& submitter, const rt::Handle& norm) const {
  submitter.set_phase(rt::Phase::kReduce);
  const auto& subgroups = parameters_.layout().subgroups;
  std::vector<const rt::Handle*> sums;
  for (const auto& sum : sums_) sums.push_back(sum.get());
  const auto options = [&](std::size_t i) {
    return rt::TaskOptions{.priority = kNormPriority, .label = subgroups[i].name.c_str()};
  };
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto index = static_cast<Index>(i);
    if (!parameters_.placement().owns(index)) continue;
    codelets::submit_sum_of_squares(submitter, parameters_.sums()[index], *sums[i], options(i));
    if (!factors_.empty())
      codelets::submit_combine_norm(submitter, std::span(&sums[i], 1), 0, *factors_[i], *norms_[i],
                                    options(i));
  }
  if (ranks_.share_sums) ranks_.share_sums(sums);
  codelets::submit_combine_norm(submitter, sums, options_.clip, *global_factor_, norm,
                                {.priority = kNormPriority, .label = "global norm"});
}

void Optimizer::submit_step(rt::Submitter& submitter, Index step, double learning_rate,
                            const rt::Handle& norm) const {
  submit_norms(submitter, norm);
  submitter.set_phase(rt::Phase::kUpdate);
  const codelets::StepBytes decayed = step_of(step, learning_rate, true);
  const codelets::StepBytes plain = step_of(step, learning_rate, false);
  for (const std::size_t i : order_) {
    const auto index = static_cast<Index>(i);
    if (parameters_.placement().owns(index))
      submit_update(submitter, index, parameters_.layout().subgroups[i].decay ? decayed : plain);
    if (ranks_.updated) ranks_.updated(index);
  }
}

void Optimizer::submit_update(rt::Submitter& submitter, Index index,
                              const codelets::StepBytes& step) const {
  const tensor::Subgroup& subgroup =
      parameters_.layout().subgroups[static_cast<std::size_t>(index)];
  std::vector<const rt::Handle*> states;
  for (const tensor::SubgroupHandles& handles : states_) states.push_back(&handles[index]);
  codelets::submit_update(
      submitter, rule_.number, step,
      {.parameters = parameters_.values()[index],
       .states = states,
       .working = parameters_.has_working() ? &parameters_.working()[index] : nullptr,
       .gradient = parameters_.sums()[index],
       .clip = factor_of(static_cast<std::size_t>(index))},
      {.priority = static_cast<int>(depths_ - subgroup.depth), .label = subgroup.name.c_str()});
}

}  // namespace dos::optim
