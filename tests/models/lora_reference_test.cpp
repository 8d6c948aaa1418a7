// SPDX-License-Identifier: Apache-2.0
// Models with adapters against what PEFT computed, however the work is cut.
#include <gtest/gtest.h>

#include <cmath>

#include "config/train_config.hpp"
#include "hf/adapter_config.hpp"
#include "hf/config_json.hpp"
#include "models/hf_tiny.hpp"
#include "norms.hpp"

namespace dos::test::lora_reference_test {
namespace {

class LoraReference : public ::testing::TestWithParam<Variant> {
 protected:
  LoraReference()
      : folder_(hf_tiny(GetParam().model)),
        fixture_(folder_ / "lora"),
        model_(model()),
        run_(options_of(GetParam().cut, model_, fixture_.optimizer())) {
    train::load_weights(hf::ModelWeights(folder_, model_), run_.parameters());
    train::load_weights(hf::ModelWeights::of_adapters(folder_ / "lora", model_), run_.parameters());
    nn::submit_working_parameters(run_.submitter(), run_.parameters());
  }

 private:
  [[nodiscard]] shape::ModelConfig model() const {
    shape::ModelConfig model = hf::read_config(folder_);
    model.context = fixture_.reference.at("tokens").shape.at(2) - 1;
    config::take_adapters(hf::read_adapter_config(folder_ / "lora"), model);
    return model;
  }

  std::filesystem::path folder_;

 protected:
  HfReference fixture_;
  shape::ModelConfig model_;
  TrainingRun run_;
};

INSTANTIATE_TEST_SUITE_P(Models, LoraReference, ::testing::ValuesIn(variants()),
                         ::testing::PrintToStringParamName());

TEST_P(LoraReference, LogitsOfEveryToken) {
  const std::vector<float> expected = floats_of(fixture_.reference.at("logits"));
  EXPECT_LE(distance(run_.logits(fixture_.batch(1)), expected), kRelative * norm_of(expected));
}

TEST_P(LoraReference, LossAndEveryGradient) {
  const double loss = fixture_.expected.at("loss");
  // Adapters count: without them the loss is another one.
  ASSERT_GT(std::abs(loss - fixture_.expected.at("loss_without").get<double>()),
            4 * kRelative * loss);
  EXPECT_NEAR(run_.evaluate(fixture_.batch(1)), loss, kRelative * loss);
  // Twice: the second pass must overwrite what the first has left.
  run_.gradients(fixture_.batch(2));
  EXPECT_NEAR(run_.gradients(fixture_.batch(1)), loss, kRelative * loss);
  std::size_t compared = 0;
  for (const hf::TensorName& name : hf::adapter_tensors(model_)) {
    SCOPED_TRACE(name.tensor);
    const std::vector<float> expected = floats_of(fixture_.reference.at("gradient." + name.tensor));
    const std::vector<float> all = run_.read(run_.parameters().gradients(), name.parameter);
    const auto got = std::span(all).subspan(static_cast<std::size_t>(name.first * name.shape[1]),
                                            static_cast<std::size_t>(name.count()));
    EXPECT_LE(distance(got, expected), kRelative * norm_of(expected));
    ++compared;
  }
  // And tokens and logits.
  EXPECT_EQ(compared + 2, fixture_.reference.tensors().size());
}

TEST_P(LoraReference, StepsOfAdamW) {
  fixture_.expect_steps(run_, fixture_.expected);
}

}  // namespace
}  // namespace dos::test::lora_reference_test
