// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "io/checkpoint_directory.hpp"
#include "io/checkpoint_manifest.hpp"
#include "shape/model_config.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::optim {
class Optimizer;
}
namespace dos::ranks {
class Exchange;
}

namespace dos::train {

/// Names of the files of a checkpoint: parameters, and the optimizer's states as "<tensor>.<state>"
/// with the names of its rule, such as first_moment, of what is trained. Tensors are stored whole,
/// by name, however they are cut into subgroups.
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";

/// Prefix of the tokenizer's files in the output folder of a run.
inline constexpr const char* kTokenizerPrefix = "tokenizer";

/// What a checkpoint is made of. Of several ranks each has the subgroups that it owns.
struct CheckpointContents {
  const tensor::ParameterSet& parameters;
  const optim::Optimizer& optimizer;
  ranks::Exchange* exchange = nullptr;  ///< null: all is here
  std::span<const Index> owners{};      ///< by subgroup, with an exchange
};

/// Writes a checkpoint of everything that `manifest` and the handles hold, on rank 0, while the
/// others send_checkpoint(); waits for the tasks that write them. manifest.files is filled in.
/// Returns the folder. On an Error nothing is left of it and the checkpoints before it stay.
std::filesystem::path save_checkpoint(io::CheckpointStore& store, io::CheckpointManifest manifest,
                                      const CheckpointContents& contents, bool mark_best);

/// What the ranks other than 0 do meanwhile. Throws Error when a rank was lost.
void send_checkpoint(const CheckpointContents& contents);

/// Throws Error, naming file and tensor, unless the tensor is FP32 and of the parameter's shape.
void expect_tensor_of(const io::SafetensorsFile& file, const io::MappedTensor& tensor,
                      const shape::ParameterSpec& parameter);

/// A checkpoint folder whose manifest is read; tensors are checked when they are loaded.
class CheckpointReader {
 public:
  /// `selector` as in CheckpointStore::resolve(), relative to the output folder of `store`.
  CheckpointReader(const io::CheckpointStore& store, const std::string& selector);
  CheckpointReader(const std::filesystem::path& out, const std::string& selector)
      : CheckpointReader(io::CheckpointStore(out), selector) {}

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const io::CheckpointManifest& manifest() const { return manifest_; }
  [[nodiscard]] shape::ModelConfig model() const;

  /// Throws Error unless the manifest lists each of the parameters: a damaged shape is found before
  /// memory is taken for it.
  void expect_lists(const std::vector<shape::ParameterSpec>& parameters) const;
  /// Overwrites the parameters in owned subgroups. Throws Error naming file and tensor when the
  /// checkpoint is of another model, or damaged: missing, extra, truncated or altered tensors.
  /// Checks everything before it writes.
  void load_parameters(const tensor::ParameterSet& parameters) const;
  /// Overwrites the optimizer's states, as above. Throws Error naming both rules when the
  /// checkpoint was made with another, or a parameter that one of both trains and the other
  /// freezes.
  void load_optimizer(const tensor::ParameterSet& parameters,
                      const optim::Optimizer& optimizer) const;

 private:
  std::filesystem::path folder_;
  io::CheckpointManifest manifest_;
};

}  // namespace dos::train
