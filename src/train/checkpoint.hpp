// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>

#include "io/checkpoint_directory.hpp"
#include "io/manifest.hpp"
#include "models/config.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::optim {
class Optimizer;
}

namespace dos::train {

/// Names of the files of a checkpoint: parameters, and the optimizer's states as "<tensor>.<state>"
/// with the names of its rule, such as first_moment. Tensors are stored whole, by name, however
/// they are cut into subgroups.
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";

/// Prefix of the tokenizer's files in the output folder of a run.
inline constexpr const char* kTokenizerPrefix = "tokenizer";

/// Writes a checkpoint of everything that `manifest` and the handles hold; waits for the tasks that
/// write them. manifest.files is filled in. Returns the folder. On an Error nothing is left of it
/// and the checkpoints before it stay.
std::filesystem::path save_checkpoint(io::CheckpointStore& store, io::Manifest manifest,
                                      const tensor::ParameterSet& parameters,
                                      const optim::Optimizer& optimizer, bool mark_best);

/// A checkpoint folder whose manifest is read; tensors are checked when they are loaded.
class CheckpointReader {
 public:
  /// `selector` as in CheckpointStore::resolve(), relative to the output folder `out`.
  CheckpointReader(const std::filesystem::path& out, const std::string& selector);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const io::Manifest& manifest() const { return manifest_; }
  [[nodiscard]] models::ModelConfig model() const;

  /// Overwrites the parameters. Throws Error naming file and tensor when the checkpoint is of
  /// another model, or damaged: missing, extra, truncated or altered tensors. Checks everything
  /// before it writes.
  void load_parameters(const tensor::ParameterSet& parameters) const;
  /// Overwrites the optimizer's states, as above. Throws Error naming both rules when the
  /// checkpoint was made with another.
  void load_optimizer(const tensor::ParameterSet& parameters,
                      const optim::Optimizer& optimizer) const;

 private:
  std::filesystem::path folder_;
  io::Manifest manifest_;
};

}  // namespace dos::train
