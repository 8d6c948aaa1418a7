// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "hf/tensor_names.hpp"
#include "io/safetensors.hpp"
#include "shape/adapters.hpp"
#include "shape/model_config.hpp"
#include "train/checkpoint.hpp"

namespace dos::train {

/// The elements of a checkpoint's tensors, in the order of folders.
class CheckpointTensors {
 public:
  /// Throws Error naming file and tensor when the checkpoint is damaged, or of another model.
  CheckpointTensors(const CheckpointReader& checkpoint, const shape::ModelConfig& model);

  /// Elements of a tensor from `first` on, as they were trained.
  void read(const hf::TensorName& name, Index first, std::span<float> out) const;
  /// The same with what adapters add to it, in double precision: w + scale b a.
  void read_merged(const hf::TensorName& name, Index first, std::span<float> out) const;

 private:
  [[nodiscard]] const io::SafetensorsFile& file_of(const std::string& name) const;
  [[nodiscard]] const io::MappedTensor& at(const std::string& name) const;

  std::vector<io::SafetensorsFile> files_;             ///< with parameters
  std::map<std::string, shape::AdaptedRows> adapted_;  ///< by parameter
};

}  // namespace dos::train
