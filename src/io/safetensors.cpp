// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/nearest.hpp"

namespace dos::io {

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  SafetensorsHeader header = read_header(file_.file());
  const auto bytes = file_.bytes();
  metadata_ = std::move(header.metadata);
  for (StoredTensor& tensor : header.tensors) {
    positions_.emplace(tensor.name, tensors_.size());
    const auto data = bytes.subspan(static_cast<std::size_t>(tensor.begin),
                                    static_cast<std::size_t>(tensor.end - tensor.begin));
    tensors_.push_back({std::move(tensor), data});
  }
}

const MappedTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = positions_.find(name);
  return found == positions_.end() ? nullptr : &tensors_[found->second];
}

const MappedTensor& SafetensorsFile::at(std::string_view name) const {
  if (const MappedTensor* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const MappedTensor& tensor : tensors_) names.push_back(tensor.name);
  fail("{}: tensor '{}': not in the file{}; use a file of the same model", path().string(),
       one_line(name), did_you_mean(name, names));
}

void expect_tensor(const SafetensorsFile& file, const TensorSpec& wanted) {
  const MappedTensor& tensor = file.at(wanted.name);
  expect(
      tensor.dtype == wanted.dtype && tensor.shape == wanted.shape,
      "{}: tensor '{}' has shape {} and type {}, the model needs {} and {}: use the checkpoint of "
      "this model",
      file.path().string(), tensor.name, shape_text(tensor.shape), file_dtype(tensor.dtype),
      shape_text(wanted.shape), file_dtype(wanted.dtype));
}

}  // namespace dos::io
