// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "hf/config_json.hpp"
#include "hf/tensor_names.hpp"
#include "io/safetensors_writer.hpp"
#include "io/tensor_folder.hpp"
#include "scratch_directory.hpp"

namespace dos::test {

/// A tiny model of each kind, as its config.json says it.
inline nlohmann::json tiny_hf_config(const std::string& type) {
  if (type == "gpt2")
    return {{"model_type", "gpt2"}, {"n_layer", 2},      {"n_embd", 8},
            {"n_head", 2},          {"n_positions", 16}, {"vocab_size", 11}};
  nlohmann::json config{{"model_type", type},
                        {"num_hidden_layers", 2},
                        {"hidden_size", 8},
                        {"intermediate_size", 12},
                        {"num_attention_heads", 4},
                        {"num_key_value_heads", 2},
                        {"max_position_embeddings", 16},
                        {"rms_norm_eps", 1e-5},
                        {"tie_word_embeddings", false},
                        {"vocab_size", 11}};
  if (type == "qwen3") config["head_dim"] = 4;
  if (type == "mistral") config["sliding_window"] = 5;
  return config;
}

/// A tensor of a file to be written.
struct FileTensor {
  io::TensorSpec spec;
  std::vector<std::byte> bytes;
};

template <class T>
FileTensor file_tensor(const std::string& name, io::FileDType dtype, std::vector<Index> shape,
                       const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {{name, dtype, std::move(shape)}, {bytes.begin(), bytes.end()}};
}

inline FileTensor float_tensor(const std::string& name, std::vector<Index> shape,
                               const std::vector<float>& values) {
  return file_tensor(name, DType::kF32, std::move(shape), values);
}

/// Different numbers for each tensor and element, with all bits that FP32 has.
inline float number_of(std::size_t tensor, std::size_t element) {
  return static_cast<float>(tensor) + (static_cast<float>(element % 101) + 1.0F / 3.0F) / 127.0F;
}

inline void write_file(const std::filesystem::path& path, const std::vector<FileTensor>& tensors) {
  std::vector<io::TensorSpec> specs;
  for (const FileTensor& tensor : tensors) specs.push_back(tensor.spec);
  io::SafetensorsWriter writer(path, specs, {{"format", "pt"}});
  for (const FileTensor& tensor : tensors) writer.write(tensor.spec.name, tensor.bytes);
  writer.commit();
}

/// A folder with a config.json and weights that a test changes before it writes them.
struct ModelFolder {
  explicit ModelFolder(const std::string& type) : ModelFolder(tiny_hf_config(type)) {}
  explicit ModelFolder(const char* type) : ModelFolder(tiny_hf_config(type)) {}
  explicit ModelFolder(nlohmann::json says) : config(std::move(says)) {
    const std::vector<hf::TensorName> names =
        hf::tensor_names(hf::parse_config(config.dump(), "config.json"));
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::vector<float> values(static_cast<std::size_t>(names[i].count()));
      for (std::size_t j = 0; j < values.size(); ++j) values[j] = number_of(i, j);
      tensors.push_back(float_tensor(names[i].tensor, names[i].shape, values));
    }
  }

  [[nodiscard]] FileTensor& find(const std::string& name) {
    for (FileTensor& tensor : tensors)
      if (tensor.spec.name == name) return tensor;
    throw std::out_of_range(name);
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const FileTensor& tensor) { return tensor.spec.name == name; });
  }
  const std::filesystem::path& write() const {
    write_durably(scratch / hf::kConfigFile, config.dump());
    write_file(scratch / io::kSingleFile, tensors);
    return scratch.path();
  }

  ScratchDirectory scratch;
  nlohmann::json config;
  std::vector<FileTensor> tensors;
};

inline std::vector<std::string> all_model_types() {
  return hf::known_model_types();
}

}  // namespace dos::test
