// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "io/safetensors.hpp"
#include "optim/optimizer_options.hpp"
#include "optim/schedule.hpp"
#include "shape/model_config.hpp"

namespace dos::test {

/// What PyTorch computed: tests/reference/gpt2_tiny/README.md.
class Gpt2Tiny {
 public:
  Gpt2Tiny()
      : weights(folder() / "weights.safetensors"),
        gradients(folder() / "gradients.safetensors"),
        weights_after(folder() / "weights_after.safetensors"),
        activations(folder() / "activations.safetensors"),
        expected(nlohmann::json::parse(std::ifstream(folder() / "expected.json"))) {
    const io::MappedTensor& mapped = activations.at("tokens");
    tokens_.resize(mapped.bytes.size() / sizeof(std::int32_t));
    std::memcpy(tokens_.data(), mapped.bytes.data(), mapped.bytes.size());
  }

  [[nodiscard]] shape::ModelConfig config() const {
    const nlohmann::json& model = expected.at("model");
    return {.architecture = "gpt2",
            .layers = model.at("layers"),
            .width = model.at("width"),
            .heads = model.at("heads"),
            .context = model.at("context"),
            .vocabulary = model.at("vocabulary")};
  }

  [[nodiscard]] optim::OptimizerOptions optimizer() const {
    const nlohmann::json& optimizer = expected.at("optimizer");
    return {.beta1 = optimizer.at("beta1"),
            .beta2 = optimizer.at("beta2"),
            .eps = optimizer.at("eps"),
            .weight_decay = optimizer.at("weight_decay"),
            .clip = optimizer.at("clip")};
  }

  [[nodiscard]] optim::LearningRate learning_rate() const {
    const nlohmann::json& schedule = expected.at("schedule");
    const double peak = schedule.at("peak");
    return optim::LearningRate({.schedule = "cosine",
                                .peak = peak,
                                .final_ratio = schedule.at("min").get<double>() / peak,
                                .warmup = schedule.at("warmup"),
                                .steps = schedule.at("steps")});
  }

  [[nodiscard]] Index steps() const { return expected.at("schedule").at("steps"); }

  /// tokens[sequences, context + 1] of step `step`, counted from 1.
  [[nodiscard]] std::span<const std::int32_t> batch(Index step) const {
    const std::size_t size = tokens_.size() / static_cast<std::size_t>(steps());
    return std::span(tokens_).subspan(static_cast<std::size_t>(step - 1) * size, size);
  }

  /// Number `step` (counted from 1) of a list of expected.json.
  static double at_step(const nlohmann::json& list, Index step) {
    return list.at(static_cast<std::size_t>(step - 1));
  }

  io::SafetensorsFile weights;
  io::SafetensorsFile gradients;
  io::SafetensorsFile weights_after;
  io::SafetensorsFile activations;
  nlohmann::json expected;

 private:
  static std::filesystem::path folder() {
    const char* source = std::getenv("DOS_SOURCE_DIR");
    expect(source != nullptr, "DOS_SOURCE_DIR is not set: run the tests with ctest");
    return std::filesystem::path(source) / "tests" / "reference" / "gpt2_tiny";
  }

  std::vector<std::int32_t> tokens_;
};

/// The rows of a parameter whose gradient is zero but for rounding: softmax does not see a shift
/// common to all keys, so the keys' part [width, 2 width) of a qkv bias has none.
inline bool is_key_bias(const std::string& name, std::size_t row, const shape::ModelConfig& c) {
  const auto width = static_cast<std::size_t>(c.width);
  return name.ends_with("attention.qkv.bias") && row >= width && row < 2 * width;
}

}  // namespace dos::test
