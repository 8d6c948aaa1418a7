// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/part_reader.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/prefault.hpp"
#include "checkpoint/piece.hpp"
#include "checkpoint/tensor_listing.hpp"
#include "io/safetensors.hpp"
#include "io/tensor_slice.hpp"
#include "storage/direct_file.hpp"
#include "storage/pages.hpp"

namespace dos::checkpoint {
namespace {

/// Pieces that are read beside those which are read in place, for whose bytes there is no room
/// elsewhere.
constexpr Index kMostBuffered = 8;

/// Elements of a piece that belong into a buffer.
struct Slice {
  Index offset = 0;  ///< in the piece, in bytes of the file
  std::span<std::byte> memory;
};

/// Bytes of a file that are read together, and what they are checked with.
struct Job {
  const io::MappedTensor* tensor = nullptr;
  DType type = DType::kF32;  ///< of the buffers
  Index tensor_offset = 0;
  io::PieceSum sum;
  Index file_offset = 0;
  std::vector<Slice> slices{};
  // While it is under way:
  std::unique_ptr<storage::Pages> buffer{};
  bool has_pages = false;  ///< where it is read in place
  std::string fault{};

  [[nodiscard]] bool is_in_place() const {
    return tensor->dtype == type && slices.size() == 1 &&
           std::ssize(slices.front().memory) == sum.bytes;
  }
  [[nodiscard]] std::span<std::byte> memory() const {
    if (is_in_place()) return slices.front().memory;
    return buffer->bytes().first(static_cast<std::size_t>(sum.bytes));
  }
};

/// Puts a slice of `piece`, elements of a file, into its buffer of this type.
void place(const Slice& slice, io::FileDType stored, std::span<const std::byte> piece, DType type) {
  const Index count = std::ssize(slice.memory) / size_of(type);
  const auto from = piece.subspan(static_cast<std::size_t>(slice.offset),
                                  static_cast<std::size_t>(count * stored.bits() / 8));
  // Whether they are finite was asked when they were written.
  if (stored == type)
    std::memcpy(slice.memory.data(), from.data(), from.size());
  else if (type == DType::kBF16)
    io::round(stored, from,
              {reinterpret_cast<BF16*>(slice.memory.data()), static_cast<std::size_t>(count)});
  else
    io::widen(stored, from,
              {reinterpret_cast<float*>(slice.memory.data()), static_cast<std::size_t>(count)});
}

/// An extent, and where its bytes are in memory.
struct Wanted {
  Index begin = 0;  ///< in the tensor
  Index end = 0;
  std::byte* memory = nullptr;
};

/// Accesses to all buffers of the parts, and by tensor what is wanted of it, in ascending order.
class Targets {
 public:
  explicit Targets(const FileContents& contents) : by_tensor_(contents.tensors.size()) {
    for (const Part& part : contents.parts) {
      accesses_.push_back(std::make_unique<rt::HostAccess>(*part.handle, rt::Mode::kWrite));
      const rt::HostAccess& access = *accesses_.back();
      std::byte* data = part.handle->type() == DType::kBF16
                            ? std::as_writable_bytes(access.as<BF16>()).data()
                            : std::as_writable_bytes(access.as<float>()).data();
      for (const Extent& extent : part.extents)
        by_tensor_[extent.tensor].push_back({extent.tensor_offset,
                                             extent.tensor_offset + extent.bytes,
                                             data + extent.buffer_offset});
    }
    for (auto& wanted : by_tensor_) std::ranges::sort(wanted, {}, &Wanted::begin);
  }

  [[nodiscard]] const std::vector<Wanted>& of(std::size_t tensor) const {
    return by_tensor_[tensor];
  }
  /// Whether any of bytes begin .. end - 1 of a tensor is wanted, of the buffers' type.
  [[nodiscard]] bool want(std::size_t tensor, Index begin, Index end) const {
    const auto next = std::ranges::upper_bound(by_tensor_[tensor], begin, {}, &Wanted::end);
    return next != by_tensor_[tensor].end() && next->begin < end;
  }

 private:
  std::vector<std::unique_ptr<rt::HostAccess>> accesses_;
  std::vector<std::vector<Wanted>> by_tensor_;
};

/// The parts of a piece, bytes of a file's tensor, that are wanted. `stored` and `size`: bytes of
/// an element in the file and in the buffers.
std::vector<Slice> slices_of(const std::vector<Wanted>& wanted, Index begin, Index end,
                             Index stored, Index size) {
  std::vector<Slice> slices;
  const Index first_byte = begin / stored * size;
  const Index last_byte = end / stored * size;
  const auto first = std::ranges::upper_bound(wanted, first_byte, {}, &Wanted::end);
  for (auto each = first; each != wanted.end() && each->begin < last_byte; ++each) {
    const Index from = std::max(first_byte, each->begin);
    const Index to = std::min(last_byte, each->end);
    slices.push_back(
        {.offset = (from - first_byte) / size * stored,
         .memory = {each->memory + (from - each->begin), static_cast<std::size_t>(to - from)}});
  }
  return slices;
}

/// Reads jobs through the engine, in their order and as soon as the pages of their memory are
/// there, and checks and places what has arrived meanwhile.
class Reading {
 public:
  /// `label`: of what is read, but for the name of the tensor.
  Reading(storage::Engine& engine, const storage::DirectFile& file, const storage::Label& label)
      : engine_(engine), file_(file), label_(label) {}
  /// Waits for what is under way.
  ~Reading() {
    while (under_way_ > 0) static_cast<void>(take());
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  void read(std::vector<Job>& jobs) {
    std::vector<std::span<std::byte>> memory;
    std::vector<Job*> in_place;
    for (Job& job : jobs)
      if (job.is_in_place()) {
        memory.push_back(job.memory());
        in_place.push_back(&job);
      }
    const Prefault prefault(std::move(memory), [&](std::size_t i) { set_pages(*in_place[i]); });
    auto next = jobs.begin();
    while (next != jobs.end() || under_way_ > 0)
      if (next != jobs.end() && is_ready(*next))
        begin(*next++);
      else if (Job* const job = take(next == jobs.end() ? nullptr : &*next))
        finish(*job);
  }

 private:
  /// Whether there is memory for it.
  bool is_ready(const Job& job) {
    if (!job.is_in_place()) return buffered_ < kMostBuffered;
    const std::lock_guard lock(mutex_);
    return job.has_pages;
  }
  void set_pages(Job& job) {
    const std::lock_guard lock(mutex_);
    job.has_pages = true;
    changed_.notify_all();
  }

  void begin(Job& job) {
    if (!job.is_in_place()) {
      job.buffer = std::make_unique<storage::Pages>(job.sum.bytes);
      ++buffered_;
    }
    ++under_way_;
    label_.buffer = job.tensor->name;
    const auto note = [this, &job](const std::string& fault) {
      const std::lock_guard lock(mutex_);
      job.fault = fault;
      arrived_.push_back(&job);
      changed_.notify_all();
    };
    engine_.read(file_, job.file_offset, job.memory(), note, label_);
  }

  /// The next that has arrived; null when `next` has got pages before.
  Job* take(const Job* next = nullptr) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !arrived_.empty() || (next != nullptr && next->has_pages); });
    if (arrived_.empty()) return nullptr;
    Job* job = arrived_.front();
    arrived_.pop_front();
    --under_way_;
    return job;
  }

  void finish(Job& job) {
    expect(job.fault.empty(), "{}", job.fault);
    const std::uint32_t found = crc32c(job.memory());
    if (found != job.sum.crc32c)
      io::fail_piece(file_.path(), job.tensor->name, job.tensor_offset, job.sum, found);
    if (job.is_in_place()) return;
    for (const Slice& slice : job.slices) place(slice, job.tensor->dtype, job.memory(), job.type);
    job.buffer.reset();
    --buffered_;
  }

  storage::Engine& engine_;
  const storage::DirectFile& file_;
  // Of the caller's thread:
  storage::Label label_;
  Index under_way_ = 0;
  Index buffered_ = 0;

  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::deque<Job*> arrived_;
};

storage::Label label_of(const io::CheckpointManifest& manifest, std::string_view file) {
  return {
      .purpose = storage::Purpose::kCheckpoint,
      .step = manifest.step,
      .category = file == kOptimizerFile ? MemoryCategory::kStates : MemoryCategory::kParameters};
}

/// Adds a job for each piece of a tensor; slices(begin, end) says what of it is wanted, in buffers
/// of this type.
template <class Slices>
void add_jobs(const io::SafetensorsFile& file, const io::MappedTensor& tensor,
              const io::TensorRecord& record, DType type, const Slices& slices,
              std::vector<Job>& jobs) {
  const Index begin = tensor.bytes.data() - file.bytes().data();
  const Index element = std::max<Index>(1, tensor.dtype.bits() / 8);
  Index offset = 0;
  for (const io::PieceSum& piece : record.pieces) {
    expect(piece.bytes % element == 0,
           "{}: tensor '{}': a piece of {} bytes holds no whole elements: the checkpoint is "
           "damaged, use another",
           file.path().string(), tensor.name, piece.bytes);
    jobs.push_back({.tensor = &tensor,
                    .type = type,
                    .tensor_offset = offset,
                    .sum = piece,
                    .file_offset = begin + offset,
                    .slices = slices(offset, offset + piece.bytes)});
    offset += piece.bytes;
  }
}

/// A file of a checkpoint, and what is wanted of it.
struct Source {
  Source(const std::filesystem::path& folder, const std::string& name,
         const io::CheckpointManifest& manifest)
      : file(folder / name), record(io::record_of(file.path(), manifest)) {
    io::expect_layout(file, manifest);
  }

  struct Tensor {
    std::size_t wanted;  ///< of the contents
    DType type;          ///< there
    const io::TensorRecord* record;
    Index first = 0;  ///< element of the whole tensor
  };

  /// Those of pieces with bytes that are wanted. Tensors without pieces are checked and copied.
  /// Adds to `bytes` what is read of the file in both ways.
  [[nodiscard]] std::vector<Job> jobs(const Targets& targets, Index& bytes) const {
    std::vector<Job> found;
    for (const Tensor& tensor : tensors) {
      const std::vector<Wanted>& wanted = targets.of(tensor.wanted);
      if (wanted.empty()) continue;
      const io::MappedTensor& mapped = file.at(tensor.record->name);
      const Index stored = mapped.dtype.bits() / 8;
      const auto slices = [&](Index begin, Index end) {
        const Index before = tensor.first * stored;
        return slices_of(wanted, before + begin, before + end, stored, size_of(tensor.type));
      };
      if (tensor.record->pieces.empty()) {
        io::expect_sums(file.path(), mapped.bytes, *tensor.record);
        bytes += std::ssize(mapped.bytes);
        for (const Slice& slice : slices(0, std::ssize(mapped.bytes)))
          place(slice, mapped.dtype, mapped.bytes, tensor.type);
      }
      add_jobs(file, mapped, *tensor.record, tensor.type, slices, found);
    }
    std::erase_if(found, [](const Job& job) { return job.slices.empty(); });
    for (const Job& job : found) bytes += job.sum.bytes;
    return found;
  }

  io::SafetensorsFile file;
  const io::FileRecord& record;
  std::vector<Tensor> tensors{};
};

void expect_tensor(const io::SafetensorsFile& file, io::TensorSpec wanted, bool any_precision) {
  const io::MappedTensor* found = file.find(wanted.name);
  const bool is_number =
      found != nullptr && (found->dtype == DType::kF32 || found->dtype == DType::kBF16);
  if (any_precision && is_number) wanted.dtype = found->dtype;
  io::expect_tensor(file, wanted);
}

/// The files of a checkpoint that hold tensors of the contents, of those in slices what the targets
/// want. Throws Error where one is not as the manifest says, or a tensor not as the contents say.
std::vector<std::unique_ptr<Source>> sources_of(const std::filesystem::path& folder,
                                                const io::CheckpointManifest& manifest,
                                                const FileContents& contents,
                                                const Targets& targets) {
  const TensorListing listing = list_tensors(manifest);
  std::map<std::string_view, Source*> by_name;
  std::vector<std::unique_ptr<Source>> sources;
  const auto source_at = [&](const std::string& name) -> Source& {
    Source*& source = by_name[name];
    if (source == nullptr) {
      sources.push_back(std::make_unique<Source>(folder, name, manifest));
      source = sources.back().get();
    }
    return *source;
  };
  for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
    const io::TensorSpec& wanted = contents.tensors[i];
    const DType type = wanted.dtype.dtype().value();
    const auto found = listing.find(wanted.name);
    if (found == listing.end()) {
      expect_tensor(source_at(contents.name).file, wanted, contents.any_precision);
      require(false, "files hold what the manifest lists");
    }
    const std::vector<ListedTensor>& places = found->second;
    if (places.front().is_whole()) {
      Source& source = source_at(places.front().file->name);
      expect_tensor(source.file, wanted, contents.any_precision);
      source.tensors.push_back({i, type, places.front().record});
      continue;
    }
    expect_whole(folder / io::kManifestName, wanted, places);
    for (const ListedTensor& place : places) {
      const io::TensorSpec part = io::part_of(wanted, place.first, place.end);
      const Index row = io::byte_size(wanted.dtype, wanted.shape).value() / wanted.shape.front();
      if (!targets.want(i, place.first * row, place.end * row)) continue;
      Source& source = source_at(place.file->name);
      expect_tensor(source.file, part, contents.any_precision);
      source.tensors.push_back({i, type, place.record, place.first * row / size_of(type)});
    }
  }
  return sources;
}

}  // namespace

void verify(storage::Engine& engine, const std::filesystem::path& folder,
            const io::CheckpointManifest& manifest) {
  for (const io::FileRecord& file : manifest.files) verify(engine, folder, manifest, file);
}

void verify(storage::Engine& engine, const std::filesystem::path& folder,
            const io::CheckpointManifest& manifest, const io::FileRecord& record) {
  const io::SafetensorsFile file(folder / record.name);
  io::expect_layout(file, manifest);
  std::vector<Job> jobs;
  for (const io::TensorRecord& tensor : record.tensors) {
    const io::MappedTensor& mapped = file.at(tensor.name);
    if (tensor.xxh3) io::expect_sums(file.path(), mapped.bytes, tensor);
    add_jobs(
        file, mapped, tensor, DType::kF32, [](Index, Index) { return std::vector<Slice>{}; }, jobs);
  }
  const storage::DirectFile input = storage::DirectFile::open(file.path());
  Reading(engine, input, label_of(manifest, record.name)).read(jobs);
}

Index read_parts(storage::Engine& engine, const std::filesystem::path& folder,
                 const io::CheckpointManifest& manifest, const FileContents& contents) {
  const Targets targets(contents);
  const std::vector<std::unique_ptr<Source>> sources =
      sources_of(folder, manifest, contents, targets);
  Index bytes = 0;
  for (const auto& source : sources) {
    std::vector<Job> jobs = source->jobs(targets, bytes);
    const storage::DirectFile input = storage::DirectFile::open(source->file.path());
    Reading(engine, input, label_of(manifest, source->record.name)).read(jobs);
  }
  return bytes;
}

}  // namespace dos::checkpoint
