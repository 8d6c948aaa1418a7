// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_layout.hpp"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"

namespace dos::io {
namespace {

Index checked_size(const TensorSpec& tensor) {
  const std::optional<Index> size = byte_size(tensor.dtype, tensor.shape);
  require(size.has_value(), "a tensor's size must fit an Index");
  return *size;
}

/// Tensors behind each other from byte 0 on.
std::vector<StoredTensor> place(const std::vector<TensorSpec>& tensors) {
  std::set<std::string_view> names{kMetadataName};
  std::vector<StoredTensor> placed;
  Index offset = 0;
  for (const TensorSpec& tensor : tensors) {
    require(names.insert(tensor.name).second, "a tensor's name must be unique and not reserved");
    const Index begin = offset;
    require(!__builtin_add_overflow(offset, checked_size(tensor), &offset),
            "the sum of all tensors must fit an Index");
    placed.push_back({tensor, begin, offset});
  }
  return placed;
}

/// Length field, JSON and the spaces after it. Written as text, because the order of the names
/// should be the order of the bytes.
std::string make_header(const std::vector<StoredTensor>& tensors,
                        const std::map<std::string, std::string>& metadata, Index alignment) {
  std::string header(kHeaderLengthBytes, '\0');
  char separator = '{';
  const auto append_name = [&](std::string_view name) {
    header += separator;
    header += nlohmann::json(name).dump();
    header += ':';
    separator = ',';
  };
  if (!metadata.empty()) {
    append_name(kMetadataName);
    header += nlohmann::json(metadata).dump();
  }
  for (const StoredTensor& tensor : tensors) {
    append_name(tensor.name);
    header += fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          file_dtype(tensor.dtype), fmt::join(tensor.shape, ","), tensor.begin,
                          tensor.end);
  }
  header += separator == '{' ? "{}" : "}";
  header.resize(static_cast<std::size_t>(ceil_div(std::ssize(header), alignment) * alignment), ' ');
  for (std::size_t i = 0; i < kHeaderLengthBytes; ++i)
    header[i] = static_cast<char>(((header.size() - kHeaderLengthBytes) >> (8 * i)) & 0xFF);
  return header;
}

}  // namespace

SafetensorsLayout::SafetensorsLayout(const std::filesystem::path& path,
                                     const std::vector<TensorSpec>& tensors,
                                     const std::map<std::string, std::string>& metadata,
                                     Index alignment)
    : tensors_(place(tensors)) {
  require(alignment > 0, "an alignment");
  try {
    header_ = make_header(tensors_, metadata, alignment);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: a tensor's name or the metadata is not UTF-8 ({}); rename it", path.string(),
         error.what());
  }
  const Index length = std::ssize(header_) - Index{kHeaderLengthBytes};
  expect(length <= kMaxHeaderBytes,
         "{}: a header of {} bytes exceeds the {} allowed; spread the tensors over more files",
         path.string(), length, kMaxHeaderBytes);
  for (StoredTensor& tensor : tensors_) {
    tensor.begin += std::ssize(header_);
    tensor.end += std::ssize(header_);
  }
  bytes_ = tensors_.empty() ? std::ssize(header_) : tensors_.back().end;
}

}  // namespace dos::io
