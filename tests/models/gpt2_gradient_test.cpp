// SPDX-License-Identifier: Apache-2.0
#include "models/gpt2_tiny.hpp"
#include "models/gradient_check.hpp"

namespace dos::test::gpt2_gradient_test {
namespace {

TEST(Gpt2Gradient, EveryParameterAlongRandomDirectionsAndItsOwn) {
  const Gpt2Tiny fixture;
  TrainingRun run({.model = fixture.config(),
                   .shape = {.batch = 4, .lanes = 2},
                   .subgroup_params = 600,
                   .workers = 2,
                   .scheduler = "lws",
                   .optimizer = {},
                   .decay = {}});
  run.load(fixture.weights);
  GradientCheck(run, fixture.batch(1)).expect_gradients();
}

}  // namespace
}  // namespace dos::test::gpt2_gradient_test
