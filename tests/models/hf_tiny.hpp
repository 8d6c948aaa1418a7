// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "models/training_run.hpp"
#include "train/run_info.hpp"

namespace dos::test {

/// What transformers computed of a tiny model: tests/reference/hf_tiny/README.md.
class HfTiny {
 public:
  explicit HfTiny(const std::string& name)
      : weights(folder(name) / "model.safetensors"),
        reference(folder(name) / "reference.safetensors"),
        expected(nlohmann::json::parse(std::ifstream(folder(name) / "expected.json"))) {
    const io::MappedTensor& mapped = reference.at("tokens");
    tokens_.resize(mapped.bytes.size() / sizeof(std::int32_t));
    std::memcpy(tokens_.data(), mapped.bytes.data(), mapped.bytes.size());
  }

  static std::filesystem::path tests_reference() {
    const char* source = std::getenv("DOS_SOURCE_DIR");
    expect(source != nullptr, "DOS_SOURCE_DIR is not set: run the tests with ctest");
    return std::filesystem::path(source) / "tests" / "reference";
  }

  [[nodiscard]] shape::ModelConfig config() const {
    return train::model_from_json(expected.at("model"), "expected.json");
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

  /// A parameter of this project among tensors of theirs: theirs one after the other, where it
  /// holds several.
  static std::vector<float> find(const io::SafetensorsFile& file, const std::string& prefix,
                                 const std::string& parameter) {
    std::vector<float> all;
    for (const std::string& name : names_of(parameter)) {
      const std::vector<float> part = floats_of(file.at(prefix + name));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  void load_into(TrainingRun& run) const {
    for (const shape::PlacedParameter& parameter : run.layout().parameters)
      run.parameters().values().write(parameter, find(weights, "", parameter.spec.name));
    nn::submit_working_parameters(run.submitter(), run.parameters());
  }

  io::SafetensorsFile weights;
  io::SafetensorsFile reference;
  nlohmann::json expected;

 private:
  static std::filesystem::path folder(const std::string& name) {
    return tests_reference() / "hf_tiny" / name;
  }

  static std::vector<std::string> names_of(const std::string& parameter) {
    if (parameter == "token_embedding.weight") return {"model.embed_tokens.weight"};
    if (parameter == "final_norm.weight") return {"model.norm.weight"};
    if (parameter == "head.weight") return {"lm_head.weight"};
    const std::size_t end = parameter.find('.', std::string("blocks.").size());
    const std::string layer = "model.layers" + parameter.substr(6, end - 6) + ".";
    const std::string name = parameter.substr(end + 1);
    const auto all = [&](std::vector<std::string> names) {
      for (std::string& each : names) each = layer + each;
      return names;
    };
    if (name == "norm1.weight") return all({"input_layernorm.weight"});
    if (name == "norm2.weight") return all({"post_attention_layernorm.weight"});
    if (name == "attention.projection.weight") return all({"self_attn.o_proj.weight"});
    if (name == "attention.head_norm.weight")
      return all({"self_attn.q_norm.weight", "self_attn.k_norm.weight"});
    if (name == "mlp.gate_up.weight") return all({"mlp.gate_proj.weight", "mlp.up_proj.weight"});
    if (name == "mlp.down.weight") return all({"mlp.down_proj.weight"});
    const std::string kind = name.substr(name.rfind('.'));
    return all({"self_attn.q_proj" + kind, "self_attn.k_proj" + kind, "self_attn.v_proj" + kind});
  }

  std::vector<std::int32_t> tokens_;
};

}  // namespace dos::test
