// SPDX-License-Identifier: Apache-2.0
// Models of every family against what transformers computed, however the work is cut.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "models/hf_tiny.hpp"
#include "norms.hpp"

namespace dos::test::transformers_reference_test {
namespace {

class TransformersReference : public ::testing::TestWithParam<Variant> {
 protected:
  TransformersReference()
      : fixture_(GetParam().model),
        run_(options_of(GetParam().cut, fixture_.config(), fixture_.optimizer())) {
    fixture_.load_into(run_);
  }

  /// Of `tokens`, against the loss and the gradients that a file has.
  void expect_loss_and_gradients(std::span<const std::int32_t> tokens, double loss,
                                 const io::SafetensorsFile& file) {
    EXPECT_NEAR(run_.evaluate(tokens), loss, kRelative * loss);
    // Twice: the second pass must overwrite what the first has left.
    run_.gradients(fixture_.batch(2));
    EXPECT_NEAR(run_.gradients(tokens), loss, kRelative * loss);
    for (const shape::PlacedParameter& parameter : run_.layout().parameters) {
      const std::string& name = parameter.spec.name;
      SCOPED_TRACE(name);
      const std::vector<float> expected = fixture_.gradient(file, name);
      const std::vector<float> got = run_.read(run_.parameters().gradients(), name);
      EXPECT_LE(distance(got, expected), kRelative * norm_of(expected));
    }
  }

  HfTiny fixture_;
  TrainingRun run_;
};

INSTANTIATE_TEST_SUITE_P(Models, TransformersReference, ::testing::ValuesIn(variants()),
                         ::testing::PrintToStringParamName());

TEST_P(TransformersReference, LogitsOfEveryToken) {
  const std::vector<float> expected = floats_of(fixture_.reference.at("logits"));
  EXPECT_LE(distance(run_.logits(fixture_.batch(1)), expected), kRelative * norm_of(expected));
}

TEST_P(TransformersReference, LossAndEveryGradient) {
  expect_loss_and_gradients(fixture_.batch(1), fixture_.expected.at("loss"), fixture_.reference);
}

TEST_P(TransformersReference, FiftyStepsOfAdamW) {
  ASSERT_EQ(fixture_.steps(), 50);
  fixture_.expect_steps(run_, fixture_.expected);
}

/// Where some tokens only count: tests/reference/chat/README.md.
class MaskedReference : public TransformersReference {
 protected:
  MaskedReference()
      : masked_(tests_reference() / "chat" / "masked.safetensors"),
        expected_(nlohmann::json::parse(
            std::ifstream(tests_reference() / "chat" / "expected.json"))["masked"]) {}

  /// The batch of step 1.
  [[nodiscard]] std::vector<std::int32_t> batch() const {
    std::vector<std::int32_t> tokens(fixture_.batch(1).begin(), fixture_.batch(1).end());
    std::vector<std::int32_t> counted(tokens.size());
    const io::MappedTensor& mapped = masked_.at("counted");
    EXPECT_EQ(mapped.bytes.size(), counted.size() * sizeof(std::int32_t));
    std::memcpy(counted.data(), mapped.bytes.data(), mapped.bytes.size());
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (counted[i] == 0) tokens[i] = -1 - tokens[i];
    return tokens;
  }

  io::SafetensorsFile masked_;
  nlohmann::json expected_;
};

INSTANTIATE_TEST_SUITE_P(Models, MaskedReference, ::testing::ValuesIn(variants({"qwen3"})),
                         ::testing::PrintToStringParamName());

TEST_P(MaskedReference, LossAndEveryGradient) {
  const double loss = expected_.at("loss");
  ASSERT_GT(std::abs(loss - fixture_.expected.at("loss").get<double>()), 10 * kRelative * loss);
  expect_loss_and_gradients(batch(), loss, masked_);
}

}  // namespace
}  // namespace dos::test::transformers_reference_test
