// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bf16.hpp"
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
  Places(const hf::TensorName& name, const io::MappedTensor& tensor)
      : first_row_(name.first),
        rows_(tensor.shape[0]),
        columns_(tensor.shape.size() == 2 ? tensor.shape[1] : 1),
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

/// The elements of a tensor, which need not be aligned.
class StoredTensor {
 public:
  explicit StoredTensor(const io::MappedTensor& tensor)
      : bytes_(tensor.bytes.data()), is_rounded_(tensor.dtype == DType::kBF16) {}

  [[nodiscard]] float at(Index element) const {
    return is_rounded_ ? to_float(load<BF16>(element)) : load<float>(element);
  }

 private:
  template <class T>
  [[nodiscard]] T load(Index element) const {
    T value;
    std::memcpy(&value, bytes_ + element * Index{sizeof(T)}, sizeof value);
    return value;
  }

  const std::byte* bytes_;
  bool is_rounded_;
};

/// A matrix [rows, columns] of a file.
class StoredMatrix {
 public:
  explicit StoredMatrix(const io::MappedTensor& tensor)
      : elements_(tensor), columns_(tensor.shape[1]) {}

  [[nodiscard]] double at(Index row, Index column) const {
    return static_cast<double>(elements_.at(row * columns_ + column));
  }

 private:
  StoredTensor elements_;
  Index columns_;
};

/// scale b a of one matrix.
class Delta {
 public:
  Delta(const io::MappedTensor& down, const io::MappedTensor& up, const shape::AdaptedRows& adapted)
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

}  // namespace

CheckpointTensors::CheckpointTensors(const CheckpointReader& checkpoint,
                                     const shape::ModelConfig& model) {
  files_.emplace_back(checkpoint.folder() / checkpoint::kModelFile);
  for (const io::FileRecord& file : checkpoint.manifest().files)
    if (file.name == checkpoint::kFrozenFile) files_.emplace_back(checkpoint.folder() / file.name);
  for (const io::SafetensorsFile& file : files_) io::expect_contents(file, checkpoint.manifest());
  for (const shape::ParameterSpec& spec :
       shape::find_family(model.architecture).parameters(model)) {
    const io::SafetensorsFile& file = file_of(spec.name);
    // What is frozen may be rounded.
    const io::MappedTensor* found = file.find(spec.name);
    const bool is_rounded = found != nullptr && found->dtype == DType::kBF16;
    io::expect_tensor(file, {spec.name, is_rounded ? DType::kBF16 : DType::kF32, spec.shape()});
    if (spec.adapted) adapted_.emplace(spec.name, *spec.adapted);
  }
}

/// The first one where none has the tensor.
const io::SafetensorsFile& CheckpointTensors::file_of(const std::string& name) const {
  const auto file = std::ranges::find_if(
      files_, [&](const io::SafetensorsFile& each) { return each.find(name) != nullptr; });
  return file == files_.end() ? files_.front() : *file;
}

const io::MappedTensor& CheckpointTensors::at(const std::string& name) const {
  return file_of(name).at(name);
}

void CheckpointTensors::read(const hf::TensorName& name, Index first, std::span<float> out) const {
  const io::MappedTensor& tensor = at(name.parameter);
  const Places places(name, tensor);
  const StoredTensor elements(tensor);
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
