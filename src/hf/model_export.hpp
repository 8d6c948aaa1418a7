// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hf/config_json.hpp"
#include "hf/tensor_names.hpp"
#include "shape/model_config.hpp"

namespace dos::hf {

/// Gives elements of a tensor, in the folder's order, from `first` on.
using ReadTensor = std::function<void(const TensorName& tensor, Index first, std::span<float> out)>;

/// A file that is written beside the weights.
struct ExtraFile {
  std::string name;
  std::string text;
};

struct ExportOptions {
  ExportedConfig config{};
  Index shard_bytes = 5'000'000'000;  ///< of the tensors in a file, unless one alone has more
  std::vector<ExtraFile> files{};
};

/// Writes `folder`, whole or not at all, without adapters: config.json, model.safetensors (or
/// several and an index), the extra files, and generation_config.json unless it is one of them.
/// Numbers are rounded to the nearest of the type. Throws Error when `folder` is there already or
/// cannot be written, and for a model that has no such form.
void export_model(const std::filesystem::path& folder, const shape::ModelConfig& model,
                  const ReadTensor& read, const ExportOptions& options);

/// Writes `folder`, whole or not at all, as PEFT reads it: adapter_config.json and
/// adapter_model.safetensors, with the adapters of the model. `base`: the folder of the model that
/// they belong to, "" where none is known. Throws as above. Pre: the model has adapters.
void export_adapters(const std::filesystem::path& folder, const shape::ModelConfig& model,
                     const ReadTensor& read, DType dtype, const std::string& base);

/// "5GB", "500MB", "20000000" as bytes; KB, MB, GB are powers of 1000. Throws Error naming `option`
/// for anything else, and for 0.
Index parse_shard_size(const std::string& option, const std::string& text);

}  // namespace dos::hf
