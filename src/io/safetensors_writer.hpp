// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "io/safetensors_layout.hpp"

namespace dos::io {

/// Streams tensors into a safetensors file that appears whole on commit() or not at all. All
/// tensors are known up front; their bytes follow in that order, each in as many pieces as the
/// caller likes. The data begins at a multiple of 64 bytes. Write wide types first if readers want
/// aligned elements.
class SafetensorsWriter {
 public:
  /// Pre: names are unique and not "__metadata__"; sizes fit an Index. Throws Error when the file
  /// cannot be created, its header is too long, or a name or metadata is not UTF-8.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                    const std::map<std::string, std::string>& metadata = {});

  /// Appends `piece` to tensor `name`. Pre: every tensor before it is complete, and the piece does
  /// not exceed what `name` still lacks. Tensors without elements may be left out. Throws Error
  /// naming the path and the cause when the device is full; the writer is of no use after that.
  void write(std::string_view name, std::span<const std::byte> piece);

  /// Flushes the file to the device and puts it in place. Pre: every tensor is complete. The writer
  /// is of no use after that.
  void commit();

 private:
  /// The tensor that takes the next piece; records those that are complete on the way there.
  void advance_to(std::string_view name);
  void finish_current();
  static Index size_of(const StoredTensor& tensor);

  SafetensorsLayout layout_;
  DurableFile file_;
  std::size_t complete_ = 0;  ///< tensors
  Index missing_ = 0;         ///< bytes of the next one
};

}  // namespace dos::io
