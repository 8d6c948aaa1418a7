// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "base/bf16.hpp"
#include "base/error.hpp"
#include "checkpoint/tensor_listing.hpp"
#include "io/tensor_slice.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"

namespace dos::train {
namespace {

/// Where element `index` of a tensor lies in its parameter.
struct Place {
  Index row;
  Index column;
};

class Places {
 public:
  Places(const hf::TensorName& name, const StoredTensor& tensor)
      : first_row_(name.first),
        rows_(tensor.shape()[0]),
        columns_(tensor.shape().size() == 2 ? tensor.shape()[1] : 1),
        is_transposed_(name.is_transposed) {}

  [[nodiscard]] Index columns() const { return columns_; }
  [[nodiscard]] Place of(Index index) const {
    // The tensor is [in, out], the parameter [out, in].
    if (is_transposed_) return {index % rows_, index / rows_};
    return {first_row_ + index / columns_, index % columns_};
  }

 private:
  Index first_row_;
  Index rows_;
  Index columns_;
  bool is_transposed_;
};

/// A matrix [rows, columns] of a file.
class StoredMatrix {
 public:
  explicit StoredMatrix(const StoredTensor& tensor)
      : elements_(tensor), columns_(tensor.shape()[1]) {}

  [[nodiscard]] double at(Index row, Index column) const {
    return static_cast<double>(elements_.at(row * columns_ + column));
  }

 private:
  const StoredTensor& elements_;
  Index columns_;
};

/// scale b a of one matrix.
class Delta {
 public:
  Delta(const StoredTensor& down, const StoredTensor& up, const shape::AdaptedRows& adapted)
      : adapted_(adapted), down_(down), up_(up) {}

  /// 0 where the row has no adapter.
  [[nodiscard]] double at(const Place& place) const {
    Index before = 0;  // rows of parts before this one
    for (std::size_t part = 0; part < adapted_.parts.size(); ++part) {
      const auto [first, rows] = adapted_.parts[part];
      if (place.row >= first && place.row < first + rows) {
        const Index up_row = before + place.row - first;
        const Index down_row = static_cast<Index>(part) * adapted_.rank;
        double sum = 0;
        for (Index k = 0; k < adapted_.rank; ++k)
          sum += up_.at(up_row, k) * down_.at(down_row + k, place.column);
        return adapted_.scale * sum;
      }
      before += rows;
    }
    return 0;
  }

 private:
  const shape::AdaptedRows& adapted_;
  StoredMatrix down_;
  StoredMatrix up_;
};

/// Whether the file holds parameters of the model, or slices of them.
bool has_any(const io::FileRecord& file, const std::set<std::string_view>& parameters) {
  return std::ranges::any_of(file.tensors, [&](const io::TensorRecord& tensor) {
    return parameters.contains(io::name_of_whole(tensor.name));
  });
}

}  // namespace

StoredTensor::StoredTensor(std::vector<Index> shape,
                           const std::vector<const io::MappedTensor*>& slices)
    : shape_(std::move(shape)), is_rounded_(slices.front()->dtype == DType::kBF16) {
  Index first = 0;
  for (const io::MappedTensor* slice : slices) {
    const Index end = first + std::ssize(slice->bytes) * 8 / slice->dtype.bits();
    slices_.push_back({end, first, slice->bytes.data()});
    first = end;
  }
}

float StoredTensor::at(Index element) const {
  const auto slice = slices_.size() == 1
                         ? slices_.begin()
                         : std::ranges::upper_bound(slices_, element, {}, &Slice::end);
  const auto load = [&]<class T>(T value) {
    std::memcpy(&value, slice->bytes + (element - slice->first) * Index{sizeof(T)}, sizeof value);
    return value;
  };
  return is_rounded_ ? to_float(load(BF16())) : load(0.0F);
}

CheckpointTensors::CheckpointTensors(const CheckpointReader& checkpoint,
                                     const shape::ModelConfig& model) {
  const std::vector<shape::ParameterSpec> parameters =
      shape::find_family(model.architecture).parameters(model);
  checkpoint.expect_lists(parameters);
  std::set<std::string_view> names;
  for (const shape::ParameterSpec& spec : parameters) names.insert(spec.name);
  const io::CheckpointManifest& manifest = checkpoint.manifest();
  expect(manifest.parts == 1,
         "{}: is part {} of {} of a checkpoint, on the disks of as many nodes: take one of the "
         "run's folder",
         checkpoint.folder().string(), manifest.part + 1, manifest.parts);
  std::map<const io::FileRecord*, const io::SafetensorsFile*> by_record;
  for (const io::FileRecord& record : manifest.files) {
    if (!has_any(record, names)) continue;
    files_.push_back(std::make_unique<io::SafetensorsFile>(checkpoint.folder() / record.name));
    io::expect_layout(*files_.back(), manifest);
    by_record[&record] = files_.back().get();
  }
  const checkpoint::TensorListing listing = checkpoint::list_tensors(manifest);
  for (const shape::ParameterSpec& spec : parameters) {
    const io::TensorSpec wanted{spec.name, DType::kF32, spec.shape()};
    const std::vector<checkpoint::ListedTensor>& places = listing.at(spec.name);
    if (!places.front().is_whole())
      checkpoint::expect_whole(checkpoint.folder() / io::kManifestName, wanted, places);
    std::vector<const io::MappedTensor*> slices;
    for (const checkpoint::ListedTensor& place : places) {
      const io::SafetensorsFile& file = *by_record.at(place.file);
      io::TensorSpec part = place.is_whole() ? wanted : io::part_of(wanted, place.first, place.end);
      // What is frozen may be rounded.
      if (place.record->dtype == DType::kBF16) part.dtype = DType::kBF16;
      io::expect_tensor(file, part);
      slices.push_back(&file.at(part.name));
      io::expect_sums(file.path(), slices.back()->bytes, *place.record);
    }
    tensors_.emplace(spec.name, StoredTensor(spec.shape(), slices));
    if (spec.adapted) adapted_.emplace(spec.name, *spec.adapted);
  }
}

void CheckpointTensors::read(const hf::TensorName& name, Index first, std::span<float> out) const {
  const StoredTensor& elements = at(name.parameter);
  const Places places(name, elements);
  if (!name.is_transposed) {
    Index element = name.first * places.columns() + first;
    for (float& value : out) value = elements.at(element++);
    return;
  }
  for (Index i = 0; i < std::ssize(out); ++i) {
    const auto [row, column] = places.of(first + i);
    out[static_cast<std::size_t>(i)] = elements.at(row * places.columns() + column);
  }
}

void CheckpointTensors::read_merged(const hf::TensorName& name, Index first,
                                    std::span<float> out) const {
  read(name, first, out);
  const auto adapted = adapted_.find(name.parameter);
  if (adapted == adapted_.end()) return;
  const Places places(name, at(name.parameter));
  const std::string module = shape::module_of(name.parameter);
  const Delta delta(at(shape::down_name(module)), at(shape::up_name(module)), adapted->second);
  for (Index i = 0; i < std::ssize(out); ++i) {
    float& value = out[static_cast<std::size_t>(i)];
    value = static_cast<float>(static_cast<double>(value) + delta.at(places.of(first + i)));
  }
}

}  // namespace dos::train
