// SPDX-License-Identifier: Apache-2.0
// Models of the LLaMA family against what transformers computed in double precision, however the
// work is cut: tests/reference/hf_tiny/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>

#include "models/hf_tiny.hpp"

namespace dos::test {
namespace {

/// How the same work is cut.
struct Cut {
  const char* what;
  Index subgroup_params = 5'000'000;
  Index micro_batches = 1;
  Index lanes = 1;
  Index logits_rows = 512;
  bool recompute = false;
};
constexpr Cut kCuts[] = {
    {.what = "whole"},
    {.what = "blocks", .subgroup_params = 300, .lanes = 2, .logits_rows = 7, .recompute = true},
    {.what = "accumulated", .subgroup_params = 1000, .micro_batches = 2}};

struct Variant {
  const char* model;
  Cut cut;
};
void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.model << ", " << variant.cut.what;
}
std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const char* model : {"llama3", "mistral", "qwen2", "qwen3"})
    for (const Cut& cut : kCuts) all.push_back({model, cut});
  return all;
}

constexpr Index kSequences = 2;
// What is asked of every number: of logits and gradients, relative to the norm of their tensor.
constexpr double kRelative = 1e-4;
constexpr double kLosses = 1e-3;

class LlamaReference : public ::testing::TestWithParam<Variant> {
 protected:
  LlamaReference()
      : fixture_(GetParam().model),
        run_({.model = fixture_.config(),
              .shape = {.batch = kSequences / GetParam().cut.micro_batches,
                        .lanes = GetParam().cut.lanes,
                        .recompute = GetParam().cut.recompute,
                        .training = true,
                        .logits_rows = GetParam().cut.logits_rows},
              .subgroup_params = GetParam().cut.subgroup_params,
              .optimizer = fixture_.optimizer(),
              .decay = {}}) {
    fixture_.load_into(run_);
  }

  HfTiny fixture_;
  TrainingRun run_;
};

INSTANTIATE_TEST_SUITE_P(Models, LlamaReference, ::testing::ValuesIn(variants()),
                         [](const auto& test) {
                           return std::string(test.param.model) + "_" + test.param.cut.what;
                         });

double norm_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

double distance(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

TEST_P(LlamaReference, LogitsOfEveryToken) {
  const Index context = fixture_.config().context;
  const std::vector<float> expected = floats_of(fixture_.reference.at("logits"));
  const auto row = static_cast<std::size_t>(context + 1);
  std::vector<float> got;
  for (std::size_t sequence = 0; sequence < kSequences; ++sequence) {
    // predict() looks at the first sequence: bring each there in turn.
    std::vector<std::int32_t> tokens(fixture_.batch(1).begin(), fixture_.batch(1).end());
    std::rotate(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(sequence * row),
                tokens.end());
    tokens.resize(static_cast<std::size_t>(run_.options().shape.batch) * row);
    for (Index position = 0; position < context; ++position)
      for (const float logit : run_.predict(tokens, position)) got.push_back(logit);
  }
  EXPECT_LE(distance(got, expected), kRelative * norm_of(expected));
}

TEST_P(LlamaReference, LossAndEveryGradient) {
  const double loss = fixture_.expected.at("loss");
  EXPECT_NEAR(run_.evaluate(fixture_.batch(1)), loss, kRelative * loss);
  // Twice: the second pass must overwrite what the first has left.
  run_.gradients(fixture_.batch(2));
  EXPECT_NEAR(run_.gradients(fixture_.batch(1)), loss, kRelative * loss);
  for (const shape::PlacedParameter& parameter : run_.layout().parameters) {
    const std::string& name = parameter.spec.name;
    SCOPED_TRACE(name);
    const std::vector<float> expected = HfTiny::find(fixture_.reference, "gradient.", name);
    const std::vector<float> got = run_.read(run_.parameters().gradients(), name);
    EXPECT_LE(distance(got, expected), kRelative * norm_of(expected));
  }
}

/// Where some tokens only count: tests/reference/chat/README.md.
class LlamaMaskedReference : public LlamaReference {
 protected:
  LlamaMaskedReference()
      : masked_(HfTiny::tests_reference() / "chat" / "masked.safetensors"),
        expected_(nlohmann::json::parse(
            std::ifstream(HfTiny::tests_reference() / "chat" / "expected.json"))["masked"]) {}

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

std::vector<Variant> masked_variants() {
  std::vector<Variant> all;
  for (const Cut& cut : kCuts) all.push_back({"qwen3", cut});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Models, LlamaMaskedReference, ::testing::ValuesIn(masked_variants()),
                         [](const auto& test) { return std::string(test.param.cut.what); });

TEST_P(LlamaMaskedReference, LossAndEveryGradient) {
  const double loss = expected_.at("loss");
  ASSERT_GT(std::abs(loss - fixture_.expected.at("loss").get<double>()), 10 * kRelative * loss);
  EXPECT_NEAR(run_.evaluate(batch()), loss, kRelative * loss);
  run_.gradients(fixture_.batch(2));
  EXPECT_NEAR(run_.gradients(batch()), loss, kRelative * loss);
  for (const shape::PlacedParameter& parameter : run_.layout().parameters) {
    const std::string& name = parameter.spec.name;
    SCOPED_TRACE(name);
    const std::vector<float> expected = HfTiny::find(masked_, "gradient.", name);
    const std::vector<float> got = run_.read(run_.parameters().gradients(), name);
    EXPECT_LE(distance(got, expected), kRelative * norm_of(expected));
  }
}

TEST_P(LlamaReference, FiftyStepsOfAdamW) {
  const double rate = fixture_.expected.at("optimizer").at("learning_rate");
  for (Index step = 1; step <= fixture_.steps(); ++step) {
    const auto at = static_cast<std::size_t>(step - 1);
    const double loss = fixture_.expected.at("losses").at(at);
    const double norm = fixture_.expected.at("gradient_norms").at(at);
    ASSERT_NEAR(run_.gradients(fixture_.batch(step)), loss, kLosses) << "step " << step;
    ASSERT_NEAR(run_.update(step, rate), norm, kLosses * norm) << "step " << step;
  }
}

}  // namespace
}  // namespace dos::test
