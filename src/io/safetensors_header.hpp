// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "io/file_dtype.hpp"

namespace dos {
class InputFile;
}

namespace dos::io {

/// Headers longer than this are refused by every reader of the format, so none is written.
inline constexpr Index kMaxHeaderBytes = 100'000'000;
/// A file begins with the header's length, a little-endian number of so many bytes.
inline constexpr std::size_t kHeaderLengthBytes = 8;
inline constexpr std::string_view kMetadataName = "__metadata__";

/// What a file says of a tensor besides its bytes. An empty shape is a scalar: one element.
struct TensorSpec {
  std::string name;
  FileDType dtype = DType::kF32;
  std::vector<Index> shape;

  bool operator==(const TensorSpec&) const = default;
};

/// "[2, 3]"; "[]" for a scalar.
std::string shape_text(std::span<const Index> shape);

/// A tensor and the bytes of the file that hold it, row-major, little-endian.
struct StoredTensor : TensorSpec {
  Index begin = 0;
  Index end = 0;
};

/// The header of a safetensors file, checked completely: what it says agrees with the file's size,
/// tensors neither overlap nor leave gaps, names are unique.
struct SafetensorsHeader {
  /// In the order of their bytes in the file; empty tensors at one place by name.
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// The header of a file of `file_size` bytes that `path` names in errors. `start` holds at least
/// the header, or the whole file. Throws Error "FILE: tensor 'NAME': what; remedy".
SafetensorsHeader parse_header(std::span<const std::byte> start, Index file_size,
                               const std::filesystem::path& path);

/// As above; reads no more than the header.
SafetensorsHeader read_header(const InputFile& file);

}  // namespace dos::io
