// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors_header.hpp"

namespace dos::io {

/// A safetensors file before it is written: what its header will be, and where its tensors will
/// lie, one behind the other in the given order.
class SafetensorsLayout {
 public:
  /// The tensors begin at a multiple of `alignment` bytes. `path` names the file in errors. Pre:
  /// names are unique and not "__metadata__"; sizes fit an Index; alignment > 0. Throws Error when
  /// the header is too long, or a name or the metadata are not UTF-8.
  SafetensorsLayout(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                    const std::map<std::string, std::string>& metadata, Index alignment);

  /// All that precedes the tensors.
  [[nodiscard]] std::string_view header() const noexcept { return header_; }
  /// In their order, with the bytes of the file that hold them.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const noexcept { return tensors_; }
  /// Of the file.
  [[nodiscard]] Index bytes() const noexcept { return bytes_; }

 private:
  std::string header_;
  std::vector<StoredTensor> tensors_;
  Index bytes_ = 0;
};

}  // namespace dos::io
