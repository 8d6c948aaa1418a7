// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_writer.hpp"

#include "base/error.hpp"

namespace dos::io {
namespace {

constexpr Index kDataAlignment = 64;

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<TensorSpec>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : layout_(path, tensors, metadata, kDataAlignment), file_(path) {
  file_.write(layout_.header());
  if (!layout_.tensors().empty()) missing_ = size_of(layout_.tensors().front());
}

Index SafetensorsWriter::size_of(const StoredTensor& tensor) {
  return tensor.end - tensor.begin;
}

void SafetensorsWriter::finish_current() {
  require(missing_ == 0, "a tensor must be complete before the next one");
  ++complete_;
  if (complete_ < layout_.tensors().size()) missing_ = size_of(layout_.tensors()[complete_]);
}

void SafetensorsWriter::advance_to(std::string_view name) {
  const std::vector<StoredTensor>& tensors = layout_.tensors();
  while (complete_ < tensors.size() && tensors[complete_].name != name) finish_current();
  require(complete_ < tensors.size(), "tensors must be known up front and come in order");
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> piece) {
  advance_to(name);
  require(std::ssize(piece) <= missing_, "a piece must not exceed its tensor");
  file_.write(piece);
  missing_ -= std::ssize(piece);
}

void SafetensorsWriter::commit() {
  while (complete_ < layout_.tensors().size()) finish_current();
  file_.commit();
}

}  // namespace dos::io
