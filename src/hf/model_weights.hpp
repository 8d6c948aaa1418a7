// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bf16.hpp"
#include "hf/tensor_names.hpp"
#include "io/tensor_folder.hpp"
#include "shape/model_config.hpp"

namespace dos::hf {

/// The weights of a folder, matched with the parameters of its model.
class ModelWeights {
 public:
  struct Tensor {
    TensorName name;
    const io::TensorFolder::Tensor* stored = nullptr;
  };

  /// Opens the weights of FOLDER, whose config.json says `model`. Throws one Error that lists the
  /// tensors that are missing, unexpected, of another shape, or of a type that is not read, and an
  /// Error for a matrix of logits that the model has none of and that is not its token table. Masks
  /// and tables that follow from the sizes are passed over.
  ModelWeights(const std::filesystem::path& folder, const shape::ModelConfig& model);

  /// The adapters of a folder that PEFT wrote, of a model with such adapters. Throws as above.
  static ModelWeights of_adapters(const std::filesystem::path& folder,
                                  const shape::ModelConfig& model);

  /// In the order in which they lie in the files.
  [[nodiscard]] std::span<const Tensor> tensors() const noexcept { return tensors_; }
  /// Pre: `name` is of tensor_names() of the model.
  [[nodiscard]] const Tensor& find(std::string_view name) const;
  /// Elements of a tensor, in the folder's order, from `first` on, as FP32 or rounded to BF16.
  /// Throws Error naming a tensor that is not finite.
  /// `begun`: as of io::TensorFolder::read().
  void read(const Tensor& tensor, Index first, std::span<float> out,
            io::ReadBuffer* begun = nullptr) const {
    folder_.read(*tensor.stored, first, out, begun);
  }
  void read(const Tensor& tensor, Index first, std::span<BF16> out,
            io::ReadBuffer* begun = nullptr) const {
    folder_.read(*tensor.stored, first, out, begun);
  }
  void begin_read(const Tensor& tensor, Index first, Index count, io::ReadBuffer& buffer,
                  storage::Engine& engine) const {
    folder_.begin_read(*tensor.stored, first, count, buffer, engine);
  }
  /// Whether all are BF16.
  [[nodiscard]] bool is_bf16() const;
  /// By what ranks know that they have read the same folder: names, types, shapes and places of all
  /// tensors. The values are not looked at.
  [[nodiscard]] std::string identity() const;

 private:
  ModelWeights(const std::filesystem::path& folder, const char* description, io::TensorFolder files,
               std::vector<TensorName> names);
  void expect_tied(const TensorName& table) const;

  io::TensorFolder folder_;
  std::vector<Tensor> tensors_;
};

}  // namespace dos::hf
