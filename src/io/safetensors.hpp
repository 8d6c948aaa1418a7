// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.hpp"
#include "io/safetensors_header.hpp"

namespace dos::io {

/// A tensor inside a mapped file: row-major, little-endian. `bytes` lives as long as the file
/// object. The format has no gaps, so bytes are aligned to the element size only if the writer put
/// wide types first.
struct MappedTensor : TensorSpec {
  std::span<const std::byte> bytes;
};

/// A safetensors file mapped read-only, whose header is checked when it is opened: read_header().
/// The mapping is not looked at: a header that cannot be read is an Error, as one that is damaged.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
  /// For who looks at the header.
  [[nodiscard]] const InputFile& file() const noexcept { return file_.file(); }
  /// The whole file.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return file_.bytes(); }
  /// In the order of their bytes in the file; empty tensors at one place by name.
  [[nodiscard]] std::span<const MappedTensor> tensors() const noexcept { return tensors_; }
  /// nullptr when there is no such tensor.
  [[nodiscard]] const MappedTensor* find(std::string_view name) const;
  /// Throws Error, with the nearest name, when there is no such tensor.
  [[nodiscard]] const MappedTensor& at(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept {
    return metadata_;
  }

 private:
  MappedFile file_;
  std::vector<MappedTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> positions_;
  std::map<std::string, std::string> metadata_;
};

/// Throws Error, naming file and tensor, unless the file has a tensor of this name, type and shape.
void expect_tensor(const SafetensorsFile& file, const TensorSpec& wanted);

}  // namespace dos::io
