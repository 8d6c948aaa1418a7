// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/state_files.hpp"
#include "io/safetensors_layout.hpp"
#include "optim/optimizer.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::checkpoint {

/// Names of the files of a checkpoint: parameters that are trained; the optimizer's states of them,
/// as "<tensor>.<state>" with the names of its rule, such as first_moment; parameters that are
/// frozen, if any. Tensors are stored whole, by name, however they are cut into subgroups and
/// whoever owns these; but where parts of them are in files of their own (StateFiles), in slices
/// (io::TensorSlice).
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kFrozenFile = "frozen.safetensors";

/// Bytes of a buffer that lie behind each other in a tensor.
struct Extent {
  std::size_t tensor = 0;  ///< of FileContents::tensors
  Index tensor_offset = 0;
  Index buffer_offset = 0;
  Index bytes = 0;
};

/// A buffer that belongs into a file, whole. Its handle outlives the object.
struct Part {
  const rt::Handle* handle = nullptr;
  Index subgroup = 0;
  Index array = 0;  ///< 0: of parameters, 1 + i: of the optimizer's state i
  Index turn = 0;   ///< place in the order in which the next updates need the buffers
  std::vector<Extent> extents;
};

/// A file of a checkpoint, wherever its bytes are kept.
struct FileContents {
  std::string name;
  bool must_be_finite = false;  ///< a checkpoint with an infinity, or what is no number, is none
  bool is_constant = false;     ///< the same in each checkpoint of a run (KeptFile)
  std::optional<Index> subgroup{};  ///< of a file that is taken as it is (StateFiles)
  bool any_precision = false;       ///< to be read: tensors may be FP32 or BF16, whichever they say
  /// Of all ranks: first those that fill whole pages, so that all of them begin at one and go past
  /// the page cache as they are, then the others from the largest to the smallest.
  std::vector<io::TensorSpec> tensors;
  /// Of this rank, by turn.
  std::vector<Part> parts;
};

/// What tensors of a file begin at a multiple of, where they can.
inline constexpr Index kTensorAlignment = 4096;

/// Where the tensors of a file lie, which follows from their names and shapes alone. `path` as for
/// io::SafetensorsLayout.
io::SafetensorsLayout layout_of(const std::filesystem::path& path,
                                const std::vector<io::TensorSpec>& tensors);

/// All parameters as what lasts of them (tensor::ParameterSet), to be read from whichever files
/// hold them, in whichever precision.
FileContents model_contents(const tensor::ParameterSet& parameters);
/// The states of what is trained.
FileContents optimizer_contents(const tensor::ParameterSet& parameters,
                                const optim::Optimizer& optimizer);
/// The files that are written, and behind them those that are taken as they are.
std::vector<FileContents> written_contents(const tensor::ParameterSet& parameters,
                                           const optim::Optimizer& optimizer,
                                           const StateFiles& taken = {});

}  // namespace dos::checkpoint
