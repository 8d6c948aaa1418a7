// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.hpp"
#include "base/types.hpp"

namespace dos::io {

/// Headers longer than this are refused by every reader of the format, so none is written.
inline constexpr Index kMaxHeaderBytes = 100'000'000;
inline constexpr std::string_view kMetadataName = "__metadata__";

/// What a file says of a tensor besides its bytes. An empty shape is a scalar: one element.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Index> shape;

  bool operator==(const TensorSpec&) const = default;
};

/// A tensor as it was written: its layout and the xxh3-64 checksum of its bytes.
struct TensorRecord : TensorSpec {
  std::uint64_t checksum = 0;

  bool operator==(const TensorRecord&) const = default;
};

/// A tensor inside a mapped file: row-major, little-endian. `bytes` lives as long as the file
/// object. The format has no gaps, so bytes are aligned to the element size only if the writer put
/// wide types first.
struct MappedTensor : TensorSpec {
  std::span<const std::byte> bytes;
};

/// Bytes of a tensor, or nullopt when a dimension is negative or the product does not fit an Index.
std::optional<Index> byte_size(DType dtype, std::span<const Index> shape);

/// "[2, 3]"; "[]" for a scalar.
std::string shape_text(std::span<const Index> shape);

/// The name of an element type in files: F64, F32, BF16, I32, U8.
const char* file_dtype(DType dtype);

/// The inverse of file_dtype(); nullopt for the types this program has no use for (F16, I64, ...).
std::optional<DType> parse_file_dtype(std::string_view name);

/// All names that parse_file_dtype() knows, for messages: "F64, F32, BF16, I32, U8".
std::string known_file_dtypes();

/// A safetensors file mapped read-only, checked completely when it is opened: what the header says
/// agrees with the file's size, tensors neither overlap nor leave gaps, names are unique. Throws
/// Error "FILE: tensor 'NAME': what; remedy" otherwise. The bytes themselves are not looked at.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
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

}  // namespace dos::io
