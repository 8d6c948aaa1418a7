// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hf/tensor_names.hpp"
#include "io/safetensors.hpp"
#include "shape/adapters.hpp"
#include "shape/model_config.hpp"
#include "train/checkpoint.hpp"

namespace dos::train {

/// The elements of a tensor, FP32 or BF16, in mapped files: they need not be aligned, and may be in
/// several slices.
class StoredTensor {
 public:
  /// `slices`: in order, and all of it.
  StoredTensor(std::vector<Index> shape, const std::vector<const io::MappedTensor*>& slices);

  [[nodiscard]] const std::vector<Index>& shape() const { return shape_; }
  [[nodiscard]] float at(Index element) const;

 private:
  struct Slice {
    Index end;  ///< element behind its last
    Index first;
    const std::byte* bytes;
  };
  std::vector<Index> shape_;
  std::vector<Slice> slices_;
  bool is_rounded_;
};

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
  [[nodiscard]] const StoredTensor& at(const std::string& name) const { return tensors_.at(name); }

  std::vector<std::unique_ptr<io::SafetensorsFile>> files_;  ///< with parameters
  std::map<std::string, StoredTensor> tensors_;              ///< parameters
  std::map<std::string, shape::AdaptedRows> adapted_;        ///< by parameter
};

}  // namespace dos::train
