// SPDX-License-Identifier: Apache-2.0
#include "train/initial_weights.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "rt/handle.hpp"

namespace dos::train {
namespace {

using Tensor = hf::ModelWeights::Tensor;

/// Columns and rows of the parameter in a tile that is transposed at once: whole cache lines on
/// both sides, and few enough that the tile stays in the first cache.
constexpr Index kTile = 16;
constexpr Index kTileRows = 64;

/// Elements `offset` .. of a subgroup, owned here, that are elements `first` .. of a tensor, in the
/// order of the parameter.
struct OwnedRange {
  Index subgroup;
  Index offset;
  Index first;
  Index count;
};

std::vector<OwnedRange> owned_ranges(const Tensor& tensor, const tensor::ParameterSet& parameters) {
  const shape::PlacedParameter& parameter = parameters.layout().find(tensor.name.parameter);
  const Index begin = tensor.name.first * (parameter.spec.is_matrix() ? parameter.spec.columns : 1);
  const Index end = begin + tensor.name.count();
  std::vector<OwnedRange> ranges;
  Index position = 0;  // of the piece in the parameter
  for (const shape::Piece& piece : shape::pieces_of(parameter)) {
    const Index from = std::max(begin, position);
    const Index to = std::min(end, position + piece.count);
    if (from < to && parameters.ownership().owns(piece.subgroup))
      ranges.push_back({piece.subgroup, piece.offset + from - position, from - begin, to - from});
    position += piece.count;
  }
  return ranges;
}

std::span<float> elements_of(const rt::HostAccess& access, const OwnedRange& range) {
  return access.as<float>().subspan(static_cast<std::size_t>(range.offset),
                                    static_cast<std::size_t>(range.count));
}

/// As the folder has them.
void load_straight(const hf::ModelWeights& weights, const Tensor& tensor,
                   const tensor::ParameterSet& parameters) {
  for (const OwnedRange& range : owned_ranges(tensor, parameters)) {
    const rt::HostAccess access(parameters.values()[range.subgroup], rt::Mode::kReadWrite);
    weights.read(tensor, range.first, elements_of(access, range));
  }
}

/// Rows `first` .. of the tensor, each of `out` elements, become columns of the parameter. Each
/// cache line of the tensor is read once: rows of it may lie at one place of the cache.
void transpose(std::span<const float> rows, Index first, Index out, Index in,
               const OwnedRange& range, std::span<float> to) {
  const Index count = std::ssize(rows) / out;
  const Index begin = range.first / in;
  const Index end = begin + range.count / in;
  std::array<std::array<float, kTileRows>, kTile> tile{};
  for (Index row = begin; row < end; row += kTileRows)
    for (Index column = 0; column < count; column += kTile) {
      const Index height = std::min(kTileRows, end - row);
      const Index width = std::min(kTile, count - column);
      for (Index c = 0; c < width; ++c)
        std::copy_n(&rows[static_cast<std::size_t>((column + c) * out + row)], height,
                    tile[static_cast<std::size_t>(c)].begin());
      for (Index r = 0; r < height; ++r) {
        float* target = &to[static_cast<std::size_t>((row + r - begin) * in + first + column)];
        for (Index c = 0; c < width; ++c)
          target[c] = tile[static_cast<std::size_t>(c)][static_cast<std::size_t>(r)];
      }
    }
}

/// The parameter is [out, in], the tensor [in, out].
void load_transposed(const hf::ModelWeights& weights, const Tensor& tensor,
                     const tensor::ParameterSet& parameters) {
  constexpr Index kBufferElements = Index{1} << 18;
  const std::vector<OwnedRange> ranges = owned_ranges(tensor, parameters);
  if (ranges.empty()) return;
  std::vector<std::unique_ptr<rt::HostAccess>> accesses;
  for (const OwnedRange& range : ranges)
    accesses.push_back(std::make_unique<rt::HostAccess>(parameters.values()[range.subgroup],
                                                        rt::Mode::kReadWrite));
  const Index in = tensor.name.shape[0];
  const Index out = tensor.name.shape[1];
  // Whole cache lines of the parameter's rows.
  const Index most = std::max<Index>(1, kBufferElements / out / kTile) * kTile;
  std::vector<float> rows;
  for (Index first = 0; first < in; first += most) {
    rows.resize(static_cast<std::size_t>(std::min(most, in - first) * out));
    weights.read(tensor, first * out, rows);
    for (std::size_t i = 0; i < ranges.size(); ++i)
      transpose(rows, first, out, in, ranges[i], elements_of(*accesses[i], ranges[i]));
  }
}

void load(const hf::ModelWeights& weights, const Tensor& tensor,
          const tensor::ParameterSet& parameters) {
  if (tensor.name.is_transposed)
    load_transposed(weights, tensor, parameters);
  else
    load_straight(weights, tensor, parameters);
}

/// The disk, conversions and the first touch of pages each take as long as the others: several
/// threads overlap them. More would need memory, and gain nothing.
Index thread_count() {
  constexpr Index kMost = 8;
  return std::clamp<Index>(std::thread::hardware_concurrency(), 2, kMost);
}

}  // namespace

void load_weights(const hf::ModelWeights& weights, const tensor::ParameterSet& parameters) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::map<std::size_t, std::exception_ptr> errors;  // by tensor: the first one is told
  const auto work = [&] {
    const auto tensors = weights.tensors();
    for (std::size_t i = next++; i < tensors.size(); i = next++) {
      try {
        load(weights, tensors[i], parameters);
      } catch (...) {
        const std::lock_guard lock(mutex);
        errors.emplace(i, std::current_exception());
        next = tensors.size();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (Index i = 0; i < thread_count(); ++i) threads.emplace_back(work);
  }
  if (!errors.empty()) std::rethrow_exception(errors.begin()->second);
}

}  // namespace dos::train
