// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "hf/model_weights.hpp"
#include "models/training_run.hpp"
#include "train/initial_weights.hpp"
#include "train/run_info.hpp"

/// Tiny models against what transformers and PEFT computed of them in double precision:
/// tests/reference/hf_tiny/README.md.
namespace dos::test {

inline std::filesystem::path tests_reference() {
  const char* source = std::getenv("DOS_SOURCE_DIR");
  expect(source != nullptr, "DOS_SOURCE_DIR is not set: run the tests with ctest");
  return std::filesystem::path(source) / "tests" / "reference";
}
inline std::filesystem::path hf_tiny(const std::string& model) {
  return tests_reference() / "hf_tiny" / model;
}

// What is asked of every number: of logits, gradients and the first loss, relative to the norm of
// their tensor, and of the losses and norms of many steps.
inline constexpr double kRelative = 1e-4;
inline constexpr double kLosses = 1e-3;
inline constexpr Index kSequences = 2;

/// How the same work is cut.
struct Cut {
  const char* what;
  Index subgroup_params = 5'000'000;
  Index micro_batches = 1;
  Index lanes = 1;
  Index logits_rows = 512;
  bool recompute = false;
};
inline constexpr Cut kCuts[] = {
    {.what = "whole"},
    {.what = "blocks", .subgroup_params = 200, .lanes = 2, .logits_rows = 7, .recompute = true},
    {.what = "accumulated", .subgroup_params = 1000, .micro_batches = 2}};

/// A model of the folder, and how its work is cut.
struct Variant {
  const char* model;
  Cut cut;
};
inline void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.model << "_" << variant.cut.what;
}
inline std::vector<Variant> variants(const std::vector<const char*>& models = {
                                         "gpt2", "llama3", "mistral", "qwen2", "qwen3"}) {
  std::vector<Variant> all;
  for (const char* model : models)
    for (const Cut& cut : kCuts) all.push_back({model, cut});
  return all;
}

inline RunOptions options_of(const Cut& cut, const shape::ModelConfig& model,
                             const optim::OptimizerOptions& optimizer) {
  return {.model = model,
          .shape = {.batch = kSequences / cut.micro_batches,
                    .lanes = cut.lanes,
                    .activations = shape::recompute_if(cut.recompute),
                    .logits_rows = cut.logits_rows},
          .subgroup_params = cut.subgroup_params,
          .optimizer = optimizer,
          .decay = {}};
}

/// A folder's `reference.safetensors` and `expected.json`: what was computed, and of which tokens.
class HfReference {
 public:
  explicit HfReference(const std::filesystem::path& folder)
      : reference(folder / "reference.safetensors"),
        expected(nlohmann::json::parse(std::ifstream(folder / "expected.json"))) {
    const io::MappedTensor& mapped = reference.at("tokens");
    tokens_.resize(mapped.bytes.size() / sizeof(std::int32_t));
    std::memcpy(tokens_.data(), mapped.bytes.data(), mapped.bytes.size());
  }

  [[nodiscard]] optim::OptimizerOptions optimizer() const {
    const nlohmann::json& optimizer = expected.at("optimizer");
    return {.beta1 = optimizer.at("beta1"),
            .beta2 = optimizer.at("beta2"),
            .eps = optimizer.at("eps"),
            .weight_decay = optimizer.at("weight_decay"),
            .clip = optimizer.at("clip")};
  }
  [[nodiscard]] Index steps() const { return std::ssize(expected.at("losses")); }

  /// tokens[sequences, context + 1] of step `step`, counted from 1.
  [[nodiscard]] std::span<const std::int32_t> batch(Index step) const {
    const std::size_t size = tokens_.size() / static_cast<std::size_t>(steps());
    return std::span(tokens_).subspan(static_cast<std::size_t>(step - 1) * size, size);
  }

  /// Trains `run` on all steps and compares each one's loss and gradient's norm with those of
  /// `curve`.
  void expect_steps(TrainingRun& run, const nlohmann::json& curve) const {
    const double rate = expected.at("optimizer").at("learning_rate");
    for (Index step = 1; step <= steps(); ++step) {
      const auto at = static_cast<std::size_t>(step - 1);
      const double norm = curve.at("gradient_norms").at(at);
      ASSERT_NEAR(run.gradients(batch(step)), curve.at("losses").at(at).get<double>(), kLosses)
          << "step " << step;
      ASSERT_NEAR(run.update(step, rate), norm, kLosses * norm) << "step " << step;
    }
  }

  io::SafetensorsFile reference;
  nlohmann::json expected;

 private:
  std::vector<std::int32_t> tokens_;
};

/// A model of the folder and its reference.
class HfTiny : public HfReference {
 public:
  explicit HfTiny(const std::string& name)
      : HfReference(hf_tiny(name)),
        folder_(hf_tiny(name)),
        config_(train::model_from_json(expected.at("model"), "expected.json")) {}

  [[nodiscard]] const shape::ModelConfig& config() const { return config_; }

  /// The gradient of a parameter of this project: theirs one after the other, where it holds
  /// several, and turned where they have it the other way round.
  [[nodiscard]] std::vector<float> gradient(const io::SafetensorsFile& file,
                                            const std::string& parameter) const {
    std::vector<float> all;
    for (const hf::TensorName& name : hf::tensor_names(config_)) {
      if (name.parameter != parameter) continue;
      const std::vector<float> theirs = floats_of(file.at("gradient." + name.tensor));
      const auto rows = static_cast<std::size_t>(name.is_transposed ? name.shape[1] : 1);
      const std::size_t columns = theirs.size() / rows;
      for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t i = 0; i < columns; ++i) all.push_back(theirs[i * rows + row]);
    }
    return all;
  }

  void load_into(TrainingRun& run) const {
    train::load_weights(hf::ModelWeights(folder_, config_), run.parameters());
    nn::submit_working_parameters(run.submitter(), run.parameters());
  }

 private:
  std::filesystem::path folder_;
  shape::ModelConfig config_;
};

}  // namespace dos::test
