// SPDX-License-Identifier: Apache-2.0
#include "train/initial_weights.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/bf16.hpp"
#include "base/fresh_memory.hpp"
#include "nn/initialise.hpp"
#include "rt/handle.hpp"
#include "rt/paused_workers.hpp"
#include "storage/engine.hpp"
#include "storage/pages.hpp"

namespace dos::train {
namespace {

using Tensor = hf::ModelWeights::Tensor;

/// Rows and columns that are transposed at once: a cache line on both sides.
constexpr Index kBlock = 16;
/// What is read at a time: with the units of the device around it a large page.
constexpr Index kReadBytes = (Index{2} << 20) - 2 * io::ReadBuffer::kMostUnit;
/// What is transposed at a time: with what it becomes they stay in a core's second cache.
constexpr Index kTransposedElements = Index{1} << 17;
/// Reads that the disk has at once: more of them end together, and later.
constexpr Index kReadsUnderWay = 12;
/// Reads that are begun or ended while others are converted: the disk has the next at once.
constexpr Index kReadsAhead = 2 * kReadsUnderWay;
/// All that is read and converted at once, but for what one thread needs at least.
constexpr Index kMostMemory = Index{56} << 20;

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

  [[nodiscard]] std::vector<std::span<std::byte>> memory() const {
    std::vector<std::span<std::byte>> memory;
    for (const auto& access : accesses_)
      if (access != nullptr) memory.push_back(access->bytes());
    return memory;
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

/// What is read at once, and by one thread: elements of a tensor, in the folder's order. Of one
/// that is transposed whole rows, whose pieces are everywhere in the buffers.
struct Job {
  const Tensor* tensor;
  std::span<const OwnedRange> ranges;  ///< of the tensor, that elements are of
  DType type;                          ///< of the buffers
  Index first;
  Index count;
};

/// As the folder has them.
template <class T>
void load_straight(const hf::ModelWeights& weights, const Job& job, const Buffers& buffers,
                   io::ReadBuffer& begun) {
  const OwnedRange& range = job.ranges.front();
  const OwnedRange part{range.subgroup, range.offset + job.first - range.first, job.first,
                        job.count};
  weights.read(*job.tensor, job.first, buffers.elements<T>(part), &begun);
}

/// Rows of a transposed tensor that are converted at once: whole cache lines of the parameter's
/// rows.
Index rows_at_once(Index out) {
  return std::max<Index>(1, kTransposedElements / out / kBlock) * kBlock;
}

/// The parameter is [out, in], the tensor [in, out].
template <class T>
void load_transposed(const hf::ModelWeights& weights, const Job& job, const Buffers& buffers,
                     std::vector<T>& memory, io::ReadBuffer& begun) {
  const Index in = job.tensor->name.shape[0];
  const Index out = job.tensor->name.shape[1];
  const Index most = rows_at_once(out) * out;
  memory.resize(static_cast<std::size_t>(std::max(std::ssize(memory), std::min(most, job.count))));
  for (Index done = 0; done < job.count; done += most) {
    const Index first = job.first + done;
    const std::span<T> rows =
        std::span(memory).first(static_cast<std::size_t>(std::min(most, job.count - done)));
    weights.read(*job.tensor, first, rows, &begun);
    for (const OwnedRange& range : job.ranges)
      transpose<T>(rows, first / out, out, in, range, buffers.elements<T>(range));
  }
}

/// All there is to read, in the order of the files.
class Jobs {
 public:
  Jobs(const hf::ModelWeights& weights, const tensor::ParameterSet& parameters,
       const Buffers& buffers) {
    for (const Tensor& tensor : weights.tensors()) {
      const shape::PlacedParameter& parameter = parameters.layout().find(tensor.name.parameter);
      ranges_.push_back(owned_ranges(tensor, parameter, buffers));
      const std::span<const OwnedRange> ranges = ranges_.back();
      if (ranges.empty()) continue;
      const DType type = parameters.lasting_type(parameter.spec.trained);
      if (tensor.name.is_transposed) {
        add(tensor, ranges, type, 0, tensor.name.count());
        continue;
      }
      for (std::size_t i = 0; i < ranges.size(); ++i)
        add(tensor, ranges.subspan(i, 1), type, ranges[i].first, ranges[i].count);
    }
  }

  [[nodiscard]] const std::vector<Job>& all() const { return jobs_; }
  /// Of the largest.
  [[nodiscard]] Index most_bytes() const { return most_bytes_; }
  /// One a core, or as many as need little more than half of the memory.
  [[nodiscard]] Index threads() const {
    const auto cores = std::max<Index>(1, std::thread::hardware_concurrency());
    return std::clamp<Index>(kMostMemory * 4 / 7 / thread_bytes(), 1, cores);
  }
  /// As many as the rest is for.
  [[nodiscard]] Index reads_ahead() const {
    return std::clamp<Index>((kMostMemory - threads() * thread_bytes()) / read_bytes(), 1,
                             kReadsAhead);
  }

 private:
  [[nodiscard]] Index thread_bytes() const { return read_bytes() + row_bytes_; }
  [[nodiscard]] Index read_bytes() const {
    return storage::Pages::taken(most_bytes_ + 2 * io::ReadBuffer::kMostUnit);
  }
  void add(const Tensor& tensor, std::span<const OwnedRange> ranges, DType type, Index first,
           Index count) {
    const Index element = tensor.stored->dtype.bits() / 8;
    Index most = kReadBytes / element;
    if (tensor.name.is_transposed) {
      const Index converted = rows_at_once(tensor.name.shape[1]) * tensor.name.shape[1];
      most = std::max<Index>(1, most / converted) * converted;
      row_bytes_ = std::max(row_bytes_, converted * size_of(type));
    }
    for (Index done = 0; done < count; done += most) {
      jobs_.push_back({&tensor, ranges, type, first + done, std::min(most, count - done)});
      most_bytes_ = std::max(most_bytes_, jobs_.back().count * element);
    }
  }

  std::deque<std::vector<OwnedRange>> ranges_;  // of tensors
  std::vector<Job> jobs_;
  Index most_bytes_ = 0;
  Index row_bytes_ = 0;  // that one thread converts at once
};

/// The jobs in their order, of which the next ones are read while others are converted.
/// Thread-safe.
class ReadAhead {
 public:
  struct Begun {
    std::size_t job;
    std::unique_ptr<io::ReadBuffer> buffer;
  };

  ReadAhead(const hf::ModelWeights& weights, const Jobs& jobs, storage::Engine& engine)
      : weights_(weights), jobs_(jobs), engine_(engine) {}

  /// The next one; none: there are no more.
  std::optional<Begun> take() {
    const std::lock_guard lock(mutex_);
    while (std::ssize(begun_) <= jobs_.reads_ahead() && next_ < jobs_.all().size()) begin();
    if (begun_.empty()) return std::nullopt;
    Begun first = std::move(begun_.front());
    begun_.pop_front();
    return first;
  }
  void give_back(Begun done) {
    done.buffer->forget();
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(done.buffer));
  }
  /// No more are taken.
  void end() {
    const std::lock_guard lock(mutex_);
    next_ = jobs_.all().size();
    begun_.clear();
  }

 private:
  void begin() {
    const Job& job = jobs_.all()[next_];
    if (free_.empty()) free_.push_back(std::make_unique<io::ReadBuffer>(jobs_.most_bytes()));
    weights_.begin_read(*job.tensor, job.first, job.count, *free_.back(), engine_);
    begun_.push_back({next_++, std::move(free_.back())});
    free_.pop_back();
  }

  const hf::ModelWeights& weights_;
  const Jobs& jobs_;
  storage::Engine& engine_;
  std::mutex mutex_;
  std::size_t next_ = 0;  // of the jobs that is to begin
  std::deque<Begun> begun_;
  std::vector<std::unique_ptr<io::ReadBuffer>> free_;
};

/// Memory of one thread for rows that are transposed.
using Rows = std::tuple<std::vector<float>, std::vector<BF16>>;

template <class T>
void load(const hf::ModelWeights& weights, const Job& job, const Buffers& buffers, Rows& rows,
          io::ReadBuffer& begun) {
  if (job.tensor->name.is_transposed)
    load_transposed<T>(weights, job, buffers, std::get<std::vector<T>>(rows), begun);
  else
    load_straight<T>(weights, job, buffers, begun);
}

}  // namespace

void load_weights(const hf::ModelWeights& weights, const tensor::ParameterSet& parameters,
                  const IsWanted& is_wanted) {
  const Buffers buffers(parameters, is_wanted);
  const Jobs jobs(weights, parameters, buffers);
  storage::Engine engine({.depth = kReadsUnderWay});
  ReadAhead reads(weights, jobs, engine);
  FreshMemory fresh(buffers.memory());
  std::mutex mutex;
  std::map<std::size_t, std::exception_ptr> errors;  // by job: the first one is told
  const auto work = [&] {
    Rows rows;
    std::size_t number = 0;
    try {
      while (std::optional<ReadAhead::Begun> next = reads.take()) {
        number = next->job;
        const Job& job = jobs.all()[number];
        while (!next->buffer->has_ended() && fresh.find_pages()) {
        }
        const auto load_as = job.type == DType::kBF16 ? load<BF16> : load<float>;
        load_as(weights, job, buffers, rows, *next->buffer);
        reads.give_back(std::move(*next));
      }
    } catch (...) {
      reads.end();
      const std::lock_guard lock(mutex);
      errors.emplace(number, std::current_exception());
    }
  };
  {
    const rt::PausedWorkers cores;
    std::vector<std::jthread> threads;
    for (Index i = 0; i < jobs.threads(); ++i) threads.emplace_back(work);
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
