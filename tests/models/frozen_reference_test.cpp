// SPDX-License-Identifier: Apache-2.0
// Models of which some parameters are frozen and others learn at rates of their own, against
// transformers, where these require no gradients and are parameter groups of their own.
#include <gtest/gtest.h>

#include "models/hf_tiny.hpp"
#include "norms.hpp"
#include "shape/trained_groups.hpp"

namespace dos::test::frozen_reference_test {
namespace {

nlohmann::json expected_cases() {
  return nlohmann::json::parse(std::ifstream(hf_tiny("frozen.json")));
}

class FrozenReference : public ::testing::TestWithParam<const char*> {
 protected:
  FrozenReference()
      : expected_(expected_cases().at(GetParam())),
        fixture_(expected_.at("model").get<std::string>()),
        run_({.model = fixture_.config(),
              .shape = {.batch = kSequences,
                        .lanes = 2,
                        .activations = shape::kRecomputeAll,
                        .logits_rows = 7},
              .subgroup_params = 300,
              .optimizer = fixture_.optimizer(),
              .decay = {},
              .trained = {.frozen = shape::parse_patterns(expected_.at("freeze")),
                          .factors = shape::parse_factors("optim.lr_factors",
                                                          expected_.at("lr_factors"))}}) {
    fixture_.load_into(run_);
  }

  nlohmann::json expected_;
  HfTiny fixture_;
  TrainingRun run_;
};

INSTANTIATE_TEST_SUITE_P(Models, FrozenReference,
                         ::testing::Values("first_block", "tied_table", "norms", "head", "gpt2"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(FrozenReference, EveryGradient) {
  run_.gradients(fixture_.batch(1));
  Index frozen = 0;
  for (const shape::PlacedParameter& parameter : run_.layout().parameters) {
    const std::string& name = parameter.spec.name;
    if (!parameter.spec.trained) {
      ++frozen;
      EXPECT_FALSE(run_.parameters().gradients().has(parameter.first_subgroup)) << name;
      continue;
    }
    const std::vector<float> expected = fixture_.gradient(fixture_.reference, name);
    const std::vector<float> got = run_.read(run_.parameters().gradients(), name);
    EXPECT_LE(distance(got, expected), kRelative * norm_of(expected)) << name;
  }
  EXPECT_GT(frozen, 0);
}

TEST_P(FrozenReference, FiftyStepsOfAdamW) {
  ASSERT_EQ(fixture_.steps(), 50);
  // What is frozen and how fast the rest learns shows by more than is allowed.
  double shown = 0;
  for (std::size_t step = 0; step < 50; ++step) {
    const double loss = expected_.at("losses").at(step);
    shown = std::max(shown, std::abs(loss - fixture_.expected.at("losses").at(step).get<double>()));
  }
  ASSERT_GT(shown, 5 * kLosses);
  fixture_.expect_steps(run_, expected_);
}

}  // namespace
}  // namespace dos::test::frozen_reference_test
