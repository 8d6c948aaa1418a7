// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "checkpoint/contents.hpp"
#include "io/checkpoint_manifest.hpp"

namespace dos::checkpoint {

/// Bytes of a tensor that a buffer wants, of the buffer's type, and where they belong.
struct Wanted {
  Index begin = 0;  ///< in the tensor
  Index end = 0;
  std::byte* memory = nullptr;
};

/// Elements of a piece that belong into a buffer.
struct Slice {
  Index offset = 0;  ///< in the piece, in bytes of the file
  std::span<std::byte> memory;
};

/// What the parts of contents want of their tensors.
class WantedBytes {
 public:
  /// `memory_of`: where the buffer of a part begins; null where that does not matter.
  WantedBytes(const FileContents& contents,
              const std::function<std::byte*(const Part&)>& memory_of);

  /// Of a tensor, in ascending order.
  [[nodiscard]] const std::vector<Wanted>& of(std::size_t tensor) const {
    return by_tensor_[tensor];
  }
  /// Whether any of bytes begin .. end - 1 of a tensor is wanted, of the buffers' type.
  [[nodiscard]] bool want(std::size_t tensor, Index begin, Index end) const;

 private:
  std::vector<std::vector<Wanted>> by_tensor_;
};

/// The parts of a piece, bytes of a file's tensor, that are wanted. `stored` and `size`: bytes of
/// an element in the file and in the buffers.
std::vector<Slice> slices_of(const std::vector<Wanted>& wanted, Index begin, Index end,
                             Index stored, Index size);

/// Whether all that the contents' parts want is in the part of the checkpoint that the manifest is
/// of. What the checkpoint has not at all is not asked for here.
bool are_here(const io::CheckpointManifest& manifest, const FileContents& contents);

}  // namespace dos::checkpoint
