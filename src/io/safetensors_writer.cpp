// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_writer.hpp"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.hpp"

namespace dos::io {
namespace {

constexpr std::size_t kDataAlignment = 64;

Index checked_size(const TensorSpec& tensor) {
  const std::optional<Index> size = byte_size(tensor.dtype, tensor.shape);
  require(size.has_value(), "a tensor's size must fit an Index");
  return *size;
}

/// Length field, JSON and the spaces after it: all that precedes the data. Written as text, because
/// the order of the names should be the order of the bytes.
std::string make_header(std::span<const TensorSpec> tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names{kMetadataName};
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
  Index offset = 0;
  for (const TensorSpec& tensor : tensors) {
    require(names.insert(tensor.name).second, "a tensor's name must be unique and not reserved");
    const Index begin = offset;
    require(!__builtin_add_overflow(offset, checked_size(tensor), &offset),
            "the sum of all tensors must fit an Index");
    append_name(tensor.name);
    header += fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          file_dtype(tensor.dtype), fmt::join(tensor.shape, ","), begin, offset);
  }
  header += separator == '{' ? "{}" : "}";
  const Index blocks = ceil_div(std::ssize(header), Index{kDataAlignment});
  header.resize(static_cast<std::size_t>(blocks) * kDataAlignment, ' ');
  for (std::size_t i = 0; i < kHeaderLengthBytes; ++i)
    header[i] = static_cast<char>(((header.size() - kHeaderLengthBytes) >> (8 * i)) & 0xFF);
  return header;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::vector<TensorSpec> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(std::move(tensors)), file_(path) {
  std::string header;
  try {
    header = make_header(tensors_, metadata);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: a tensor's name or the metadata is not UTF-8 ({}); rename it", path.string(),
         error.what());
  }
  const Index length = std::ssize(header) - Index{kHeaderLengthBytes};
  expect(length <= kMaxHeaderBytes,
         "{}: a header of {} bytes exceeds the {} allowed; spread the tensors over more files",
         path.string(), length, kMaxHeaderBytes);
  file_.write(header);
  if (!tensors_.empty()) missing_ = checked_size(tensors_.front());
}

void SafetensorsWriter::finish_current() {
  require(missing_ == 0, "a tensor must be complete before the next one");
  records_.push_back({tensors_[records_.size()], checksum_.value()});
  checksum_.reset();
  if (records_.size() < tensors_.size()) missing_ = checked_size(tensors_[records_.size()]);
}

void SafetensorsWriter::advance_to(std::string_view name) {
  while (records_.size() < tensors_.size() && tensors_[records_.size()].name != name)
    finish_current();
  require(records_.size() < tensors_.size(), "tensors must be known up front and come in order");
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> piece) {
  advance_to(name);
  require(std::ssize(piece) <= missing_, "a piece must not exceed its tensor");
  file_.write(piece);
  checksum_.update(piece);
  missing_ -= std::ssize(piece);
}

std::vector<TensorRecord> SafetensorsWriter::commit() {
  while (records_.size() < tensors_.size()) finish_current();
  file_.commit();
  return std::move(records_);
}

}  // namespace dos::io
