// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

#include "optim/elementwise.hpp"
#include "optim/gradient_norms.hpp"
#include "optim/rules.hpp"

namespace dos::optim {

void OptimizerOptions::validate() const {
  static_cast<void>(find_rule(rule));
  expect_in(kDecayRates, "optim.beta1", beta1);
  expect_in(kDecayRates, "optim.beta2", beta2);
  expect_in(kDecayRates, "optim.momentum", momentum);
  expect_in(kEps, "optim.eps", eps);
  expect_in(kWeightDecays, "optim.weight_decay", weight_decay);
  expect_in(kClips, "optim.clip", clip);
}

std::unique_ptr<Optimizer> make_optimizer(rt::Session& session, tensor::ParameterSet& parameters,
                                          const OptimizerOptions& options,
                                          tensor::StateHomes* homes, std::span<const Index> ahead) {
  return std::make_unique<ElementwiseOptimizer>(session, parameters, options, homes, ahead);
}

Index state_bytes(const shape::Layout& layout, const OptimizerOptions& options,
                  const tensor::Ownership& ownership) {
  const Index owned =
      tensor::element_count(layout, tensor::BufferPlan(layout, {}, ownership).states);
  return states_of_rule(options.rule) * size_of(DType::kF32) * owned +
         GradientNorms::bytes(layout.trained_subgroups(), options.clip);
}

}  // namespace dos::optim
