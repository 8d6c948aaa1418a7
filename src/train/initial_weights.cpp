// SPDX-License-Identifier: Apache-2.0
#include "train/initial_weights.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/bf16.hpp"
#include "nn/initialise.hpp"
#include "rt/handle.hpp"
#include "rt/paused_workers.hpp"

namespace dos::train {
namespace {

using Tensor = hf::ModelWeights::Tensor;

/// Rows and columns that are transposed at once: a cache line on both sides.
constexpr Index kBlock = 16;
/// What a thread reads at a time: enough for the disk, little enough for all threads to end at
/// nearly the same moment.
constexpr Index kStraightElements = Index{1} << 20;
/// Of a tensor that is transposed: with what it becomes they stay in a core's second cache.
constexpr Index kTransposedElements = Index{1} << 17;

/// Elements `offset` .. of a subgroup, owned here, that are elements `first` .. of a tensor, in the
/// order of the parameter.
struct OwnedRange {
  Index subgroup;
  Index offset;
  Index first;
  Index count;
};

/// The buffers that are written, all of them accessible for as long as the object lives: threads
/// may then write different elements of one.
class Buffers {
 public:
  Buffers(const tensor::ParameterSet& parameters, const IsWanted& is_wanted)
      : accesses_(parameters.layout().subgroups.size()) {
    for (Index i = 0; i < std::ssize(accesses_); ++i)
      if (parameters.ownership().owns(i) && is_wanted(i))
        accesses_[static_cast<std::size_t>(i)] =
            std::make_unique<rt::HostAccess>(parameters.lasting(i), rt::Mode::kReadWrite);
  }

  [[nodiscard]] bool has(Index subgroup) const {
    return accesses_[static_cast<std::size_t>(subgroup)] != nullptr;
  }
  template <class T>
  [[nodiscard]] std::span<T> elements(const OwnedRange& range) const {
    const rt::HostAccess& access = *accesses_[static_cast<std::size_t>(range.subgroup)];
    return access.as<T>().subspan(static_cast<std::size_t>(range.offset),
                                  static_cast<std::size_t>(range.count));
  }

 private:
  std::vector<std::unique_ptr<rt::HostAccess>> accesses_;  // by subgroup
};

std::vector<OwnedRange> owned_ranges(const Tensor& tensor, const shape::PlacedParameter& parameter,
                                     const Buffers& buffers) {
  const Index begin = tensor.name.first * (parameter.spec.is_matrix() ? parameter.spec.columns : 1);
  const Index end = begin + tensor.name.count();
  std::vector<OwnedRange> ranges;
  Index position = 0;  // of the piece in the parameter
  for (const shape::Piece& piece : shape::pieces_of(parameter)) {
    const Index from = std::max(begin, position);
    const Index to = std::min(end, position + piece.count);
    if (from < to && buffers.has(piece.subgroup))
      ranges.push_back({piece.subgroup, piece.offset + from - position, from - begin, to - from});
    position += piece.count;
  }
  return ranges;
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

/// 16 rows and columns.
void transpose_block(const float* from, Index from_stride, float* to, Index to_stride) {
  for (Index r = 0; r < kBlock; r += 4)
    for (Index c = 0; c < kBlock; c += 4)
      transpose_four(from + c * from_stride + r, from_stride, to + r * to_stride + c, to_stride);
}
void transpose_block(const BF16* from, Index from_stride, BF16* to, Index to_stride) {
  for (Index r = 0; r < kBlock; ++r)
    for (Index c = 0; c < kBlock; ++c) to[r * to_stride + c] = from[c * from_stride + r];
}

/// Rows `first` .. of the tensor, each of `out` elements, become columns of the parameter.
template <class T>
void transpose(std::span<const T> rows, Index first, Index out, Index in, const OwnedRange& range,
               std::span<T> to) {
  const Index count = std::ssize(rows) / out;
  const Index begin = range.first / in;
  const Index end = begin + range.count / in;
  for (Index row = begin; row < end; row += kBlock)
    for (Index column = 0; column < count; column += kBlock) {
      const Index height = std::min(kBlock, end - row);
      const Index width = std::min(kBlock, count - column);
      const T* const source = &rows[static_cast<std::size_t>(column * out + row)];
      T* const target = &to[static_cast<std::size_t>((row - begin) * in + first + column)];
      if (height == kBlock && width == kBlock) {
        transpose_block(source, out, target, in);
        continue;
      }
      for (Index r = 0; r < height; ++r)
        for (Index c = 0; c < width; ++c) target[r * in + c] = source[c * out + r];
    }
}

/// What one thread does at a time: some elements of a tensor, in the folder's order, or all of one
/// that is transposed, whose pieces are everywhere in the buffers.
struct Job {
  const Tensor* tensor;
  const std::vector<OwnedRange>* ranges;  ///< of the whole tensor
  DType type;                             ///< of the buffers
  Index first;
  Index count;
};

/// A thread's memory.
struct Scratch {
  io::ReadBuffer buffer{};
  std::tuple<std::vector<float>, std::vector<BF16>> rows{};  ///< that are transposed
};

/// As the folder has them.
template <class T>
void load_straight(const hf::ModelWeights& weights, const Job& job, const Buffers& buffers,
                   Scratch& scratch) {
  for (const OwnedRange& range : *job.ranges) {
    const Index from = std::max(job.first, range.first);
    const Index to = std::min(job.first + job.count, range.first + range.count);
    if (from >= to) continue;
    const OwnedRange part{range.subgroup, range.offset + from - range.first, from, to - from};
    weights.read(*job.tensor, from, buffers.elements<T>(part), &scratch.buffer);
  }
}

/// Rows of a transposed tensor that are read at once: whole cache lines of the parameter's rows.
Index rows_at_once(Index out) {
  return std::max<Index>(1, kTransposedElements / out / kBlock) * kBlock;
}

/// The parameter is [out, in], the tensor [in, out].
template <class T>
void load_transposed(const hf::ModelWeights& weights, const Job& job, const Buffers& buffers,
                     Scratch& scratch) {
  const Index in = job.tensor->name.shape[0];
  const Index out = job.tensor->name.shape[1];
  const Index most = rows_at_once(out);
  auto& memory = std::get<std::vector<T>>(scratch.rows);
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(std::min(most, in) * out)));
  for (Index first = 0; first < in; first += most) {
    const std::span<T> rows =
        std::span(memory).first(static_cast<std::size_t>(std::min(most, in - first) * out));
    weights.read(*job.tensor, first * out, rows, &scratch.buffer);
    for (const OwnedRange& range : *job.ranges)
      transpose<T>(rows, first, out, in, range, buffers.elements<T>(range));
  }
}

template <class T>
void load(const hf::ModelWeights& weights, const Job& job, const Buffers& buffers,
          Scratch& scratch) {
  if (job.tensor->name.is_transposed)
    load_transposed<T>(weights, job, buffers, scratch);
  else
    load_straight<T>(weights, job, buffers, scratch);
}

void load(const hf::ModelWeights& weights, const Job& job, const Buffers& buffers,
          Scratch& scratch) {
  if (job.type == DType::kBF16)
    load<BF16>(weights, job, buffers, scratch);
  else
    load<float>(weights, job, buffers, scratch);
}

/// All there is to read, in the order of the files.
class Jobs {
 public:
  Jobs(const hf::ModelWeights& weights, const tensor::ParameterSet& parameters,
       const Buffers& buffers) {
    for (const Tensor& tensor : weights.tensors()) {
      const shape::PlacedParameter& parameter = parameters.layout().find(tensor.name.parameter);
      ranges_.push_back(owned_ranges(tensor, parameter, buffers));
      if (ranges_.back().empty()) continue;
      const DType type = parameters.lasting_type(parameter.spec.trained);
      const Index count = tensor.name.count();
      const Index most = tensor.name.is_transposed ? count : kStraightElements;
      for (Index first = 0; first < count; first += most)
        jobs_.push_back({&tensor, &ranges_.back(), type, first, std::min(most, count - first)});
    }
  }

  [[nodiscard]] const std::vector<Job>& all() const { return jobs_; }

 private:
  std::deque<std::vector<OwnedRange>> ranges_;  // of tensors
  std::vector<Job> jobs_;
};

/// A thread's Scratch.
Index scratch_bytes(const hf::ModelWeights& weights) {
  Index rows = 0;
  for (const Tensor& tensor : weights.tensors())
    if (tensor.name.is_transposed)
      rows = std::max(rows, rows_at_once(tensor.name.shape[1]) * tensor.name.shape[1]);
  return io::ReadBuffer::kBytes + rows * size_of(DType::kF32);
}

/// Four a core: while one converts, the others keep the disk busy, though a tensor that is
/// transposed is read in pieces of some hundred KB. Fewer where rows are so long that all threads
/// together would need much memory.
Index thread_count(const hf::ModelWeights& weights) {
  constexpr Index kMostMemory = Index{48} << 20;
  const auto wanted = 4 * std::max<Index>(1, std::thread::hardware_concurrency());
  return std::clamp<Index>(wanted, 1, std::max<Index>(1, kMostMemory / scratch_bytes(weights)));
}

}  // namespace

void load_weights(const hf::ModelWeights& weights, const tensor::ParameterSet& parameters,
                  const IsWanted& is_wanted) {
  const Buffers buffers(parameters, is_wanted);
  const Jobs jobs(weights, parameters, buffers);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::map<std::size_t, std::exception_ptr> errors;  // by job: the first one is told
  const auto work = [&] {
    Scratch scratch;
    for (std::size_t i = next++; i < jobs.all().size(); i = next++) {
      try {
        load(weights, jobs.all()[i], buffers, scratch);
      } catch (...) {
        const std::lock_guard lock(mutex);
        errors.emplace(i, std::current_exception());
        next = jobs.all().size();
      }
    }
  };
  {
    const rt::PausedWorkers cores;
    std::vector<std::jthread> threads;
    for (Index i = 0; i < thread_count(weights); ++i) threads.emplace_back(work);
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
  states.in_turn(states.parameters_away(), [&](const IsWanted& is_wanted) {
    for (const hf::ModelWeights& weights : folders) load_weights(weights, parameters, is_wanted);
  });
}

}  // namespace dos::train
