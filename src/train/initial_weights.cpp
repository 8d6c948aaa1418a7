// SPDX-License-Identifier: Apache-2.0
#include "train/initial_weights.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "nn/initialise.hpp"
#include "rt/handle.hpp"
#include "rt/paused_workers.hpp"

namespace dos::train {
namespace {

using Tensor = hf::ModelWeights::Tensor;

/// Rows and columns that are transposed at once: a cache line on both sides.
constexpr Index kBlock = 16;
/// Of a tensor that is transposed: with what it becomes they stay in a core's second cache.
constexpr Index kPieceElements = Index{1} << 17;

/// Elements `offset` .. of a subgroup, owned here, that are elements `first` .. of a tensor, in the
/// order of the parameter.
struct OwnedRange {
  Index subgroup;
  Index offset;
  Index first;
  Index count;
};

/// Of those subgroups that are wanted.
std::vector<OwnedRange> owned_ranges(const Tensor& tensor, const tensor::ParameterSet& parameters,
                                     const IsWanted& is_wanted) {
  const shape::PlacedParameter& parameter = parameters.layout().find(tensor.name.parameter);
  const Index begin = tensor.name.first * (parameter.spec.is_matrix() ? parameter.spec.columns : 1);
  const Index end = begin + tensor.name.count();
  std::vector<OwnedRange> ranges;
  Index position = 0;  // of the piece in the parameter
  for (const shape::Piece& piece : shape::pieces_of(parameter)) {
    const Index from = std::max(begin, position);
    const Index to = std::min(end, position + piece.count);
    const bool is_here = parameters.ownership().owns(piece.subgroup) &&
                         parameters.values().has(piece.subgroup) && is_wanted(piece.subgroup);
    if (from < to && is_here)
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
                   const tensor::ParameterSet& parameters, const IsWanted& is_wanted) {
  for (const OwnedRange& range : owned_ranges(tensor, parameters, is_wanted)) {
    const rt::HostAccess access(parameters.values()[range.subgroup], rt::Mode::kReadWrite);
    weights.read(tensor, range.first, elements_of(access, range));
  }
}

/// Four numbers that a register holds.
using Four = float __attribute__((vector_size(16)));

Four load_four(const float* from) {
  Four four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

void store_four(float* to, Four four) {
  std::memcpy(to, &four, sizeof four);
}

/// Four rows of four numbers, `from_stride` apart, become columns of rows that are `to_stride`
/// apart.
void transpose_four(const float* from, Index from_stride, float* to, Index to_stride) {
  const Four a = load_four(from);
  const Four b = load_four(from + from_stride);
  const Four c = load_four(from + 2 * from_stride);
  const Four d = load_four(from + 3 * from_stride);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store_four(to, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  store_four(to + to_stride, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  store_four(to + 2 * to_stride, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  store_four(to + 3 * to_stride, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

/// Rows `first` .. of the tensor, each of `out` elements, become columns of the parameter.
void transpose(std::span<const float> rows, Index first, Index out, Index in,
               const OwnedRange& range, std::span<float> to) {
  const Index count = std::ssize(rows) / out;
  const Index begin = range.first / in;
  const Index end = begin + range.count / in;
  for (Index row = begin; row < end; row += kBlock)
    for (Index column = 0; column < count; column += kBlock) {
      const Index height = std::min(kBlock, end - row);
      const Index width = std::min(kBlock, count - column);
      const float* const source = &rows[static_cast<std::size_t>(column * out + row)];
      float* const target = &to[static_cast<std::size_t>((row - begin) * in + first + column)];
      // A whole line of the parameter's row before the next one.
      const bool is_whole = height == kBlock && width == kBlock;
      for (Index r = 0; is_whole && r < kBlock; r += 4)
        for (Index c = 0; c < kBlock; c += 4)
          transpose_four(source + c * out + r, out, target + r * in + c, in);
      for (Index r = 0; !is_whole && r < height; ++r)
        for (Index c = 0; c < width; ++c) target[r * in + c] = source[c * out + r];
    }
}

/// The parameter is [out, in], the tensor [in, out].
void load_transposed(const hf::ModelWeights& weights, const Tensor& tensor,
                     const tensor::ParameterSet& parameters, const IsWanted& is_wanted) {
  const std::vector<OwnedRange> ranges = owned_ranges(tensor, parameters, is_wanted);
  if (ranges.empty()) return;
  std::vector<std::unique_ptr<rt::HostAccess>> accesses;
  for (const OwnedRange& range : ranges)
    accesses.push_back(std::make_unique<rt::HostAccess>(parameters.values()[range.subgroup],
                                                        rt::Mode::kReadWrite));
  const Index in = tensor.name.shape[0];
  const Index out = tensor.name.shape[1];
  // Whole cache lines of the parameter's rows.
  const Index most = std::max<Index>(1, kPieceElements / out / kBlock) * kBlock;
  std::vector<float> rows(static_cast<std::size_t>(std::min(most, in) * out));
  for (Index first = 0; first < in; first += most) {
    const auto piece =
        std::span(rows).first(static_cast<std::size_t>(std::min(most, in - first) * out));
    weights.read(tensor, first * out, piece);
    for (std::size_t i = 0; i < ranges.size(); ++i)
      transpose(piece, first, out, in, ranges[i], elements_of(*accesses[i], ranges[i]));
  }
}

void load(const hf::ModelWeights& weights, const Tensor& tensor,
          const tensor::ParameterSet& parameters, const IsWanted& is_wanted) {
  if (tensor.name.is_transposed)
    load_transposed(weights, tensor, parameters, is_wanted);
  else
    load_straight(weights, tensor, parameters, is_wanted);
}

/// Two a core: one waits for the disk while the other converts.
Index thread_count() {
  constexpr Index kMost = 16;
  return std::clamp<Index>(2 * std::thread::hardware_concurrency(), 2, kMost);
}

}  // namespace

void load_weights(const hf::ModelWeights& weights, const tensor::ParameterSet& parameters,
                  const IsWanted& is_wanted) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::map<std::size_t, std::exception_ptr> errors;  // by tensor: the first one is told
  const auto work = [&] {
    const auto tensors = weights.tensors();
    for (std::size_t i = next++; i < tensors.size(); i = next++) {
      try {
        load(weights, tensors[i], parameters, is_wanted);
      } catch (...) {
        const std::lock_guard lock(mutex);
        errors.emplace(i, std::current_exception());
        next = tensors.size();
      }
    }
  };
  {
    const rt::PausedWorkers cores;
    std::vector<std::jthread> threads;
    for (Index i = 0; i < thread_count(); ++i) threads.emplace_back(work);
  }
  if (!errors.empty()) std::rethrow_exception(errors.begin()->second);
}

void load_or_initialise(std::span<const hf::ModelWeights> folders, rt::Submitter& submitter,
                        const tensor::ParameterSet& parameters, std::uint64_t seed,
                        const RunStates& states) {
  std::set<std::string> loaded;
  for (const hf::ModelWeights& weights : folders)
    for (const hf::ModelWeights::Tensor& tensor : weights.tensors())
      loaded.insert(tensor.name.parameter);
  states.with_parameters(/*stores=*/true, [&] {
    nn::submit_initial_values(submitter, parameters, seed, [&](const shape::ParameterSpec& spec) {
      return !loaded.contains(spec.name);
    });
  });
  // A subgroup may have some of both, and workers do nothing meanwhile.
  submitter.session().wait_all();
  states.in_turn(states.parameters_on_disks(), [&](const IsWanted& is_wanted) {
    for (const hf::ModelWeights& weights : folders) load_weights(weights, parameters, is_wanted);
  });
}

}  // namespace dos::train
