// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "hf/model_weights.hpp"
#include "hf/side_files.hpp"
#include "shape/model_config.hpp"
#include "tensor/parameter_set.hpp"
#include "train/checkpoint.hpp"

namespace dos::train {

/// A trained model on disk: a checkpoint, of a run or by itself, or a Hugging Face folder.
class ModelSource {
 public:
  /// `named` is a folder with config.json, a checkpoint, or the output folder of a run (or its
  /// folder of checkpoints), of which `checkpoint` names one as CheckpointStore::resolve() takes
  /// it; of what is no run's it is "last" or "". Throws Error when there is no such thing, or its
  /// description is damaged.
  ModelSource(const std::filesystem::path& named, const std::string& checkpoint);

  /// The folder with the weights.
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const shape::ModelConfig& model() const { return model_; }
  /// Null for a Hugging Face folder.
  [[nodiscard]] const CheckpointReader* checkpoint() const {
    return checkpoint_ ? &*checkpoint_ : nullptr;
  }
  /// Null for a checkpoint.
  [[nodiscard]] const hf::ModelWeights* weights() const { return weights_ ? &*weights_ : nullptr; }
  /// The output folder of the checkpoint's run. Pre: checkpoint().
  [[nodiscard]] const std::filesystem::path& run() const { return run_; }

  /// What the folder holds beside its weights, or the one that the run began with held.
  [[nodiscard]] hf::SideFiles side_files() const;

  /// Overwrites the values of the parameters, those that are there. Throws Error naming file and
  /// tensor when the weights are damaged, as CheckpointReader::load_parameters() and load_weights()
  /// do.
  void load(const tensor::ParameterSet& parameters) const;

 private:
  std::filesystem::path folder_;
  std::filesystem::path run_;
  std::optional<CheckpointReader> checkpoint_;
  shape::ModelConfig model_;
  std::optional<hf::ModelWeights> weights_;
};

}  // namespace dos::train
