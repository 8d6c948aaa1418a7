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
#include "checkpoint/piece.hpp"
#include "io/safetensors.hpp"
#include "storage/file.hpp"
#include "storage/pages.hpp"

namespace dos::checkpoint {
namespace {

/// Pieces that are read beside those which are read in place, for whose bytes there is no room
/// elsewhere.
constexpr Index kMostBuffered = 8;

/// Bytes of a piece that belong into a buffer.
struct Slice {
  Index offset = 0;  ///< in the piece
  std::span<std::byte> memory;
};

/// Bytes of a file that are read together, and what they are checked with.
struct Job {
  const io::MappedTensor* tensor = nullptr;
  Index tensor_offset = 0;
  io::PieceSum sum;
  Index file_offset = 0;
  std::vector<Slice> slices{};
  // While it is under way:
  std::unique_ptr<storage::Pages> buffer{};
  std::string fault{};

  [[nodiscard]] bool is_in_place() const {
    return slices.size() == 1 && std::ssize(slices.front().memory) == sum.bytes;
  }
  [[nodiscard]] std::span<std::byte> memory() const {
    if (is_in_place()) return slices.front().memory;
    return buffer->bytes().first(static_cast<std::size_t>(sum.bytes));
  }
};

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
      std::byte* data = std::as_writable_bytes(accesses_.back()->as<float>()).data();
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

 private:
  std::vector<std::unique_ptr<rt::HostAccess>> accesses_;
  std::vector<std::vector<Wanted>> by_tensor_;
};

/// The parts of a piece that are wanted.
std::vector<Slice> slices_of(const std::vector<Wanted>& wanted, Index begin, Index end) {
  std::vector<Slice> slices;
  const auto first = std::ranges::upper_bound(wanted, begin, {}, &Wanted::end);
  for (auto each = first; each != wanted.end() && each->begin < end; ++each) {
    const Index from = std::max(begin, each->begin);
    const Index to = std::min(end, each->end);
    slices.push_back(
        {.offset = from - begin,
         .memory = {each->memory + (from - each->begin), static_cast<std::size_t>(to - from)}});
  }
  return slices;
}

/// Reads jobs through the engine, and checks and places what has arrived meanwhile.
class Reading {
 public:
  /// `label`: of what is read, but for the name of the tensor.
  Reading(storage::Engine& engine, const storage::File& file, const storage::Label& label)
      : engine_(engine), file_(file), label_(label) {}
  /// Waits for what is under way.
  ~Reading() {
    while (under_way_ > 0) static_cast<void>(take());
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  void read(std::vector<Job>& jobs) {
    for (Job& job : jobs) {
      if (!job.is_in_place()) {
        while (buffered_ == kMostBuffered) finish(*take());
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
    while (under_way_ > 0) finish(*take());
  }

 private:
  Job* take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !arrived_.empty(); });
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
    for (const Slice& slice : job.slices)
      std::memcpy(slice.memory.data(), job.buffer->data() + slice.offset, slice.memory.size());
    job.buffer.reset();
    --buffered_;
  }

  storage::Engine& engine_;
  const storage::File& file_;
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

/// Adds a job for each piece of a tensor; slices(begin, end) says what of it is wanted.
template <class Slices>
void add_jobs(const io::SafetensorsFile& file, const io::MappedTensor& tensor,
              const io::TensorRecord& record, const Slices& slices, std::vector<Job>& jobs) {
  const Index begin = tensor.bytes.data() - file.bytes().data();
  Index offset = 0;
  for (const io::PieceSum& piece : record.pieces) {
    jobs.push_back({.tensor = &tensor,
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
    const io::TensorRecord* record;
  };

  /// Those of pieces with bytes that are wanted. Tensors without pieces are checked and copied.
  [[nodiscard]] std::vector<Job> jobs(const Targets& targets) const {
    std::vector<Job> found;
    for (const Tensor& tensor : tensors) {
      const std::vector<Wanted>& wanted = targets.of(tensor.wanted);
      if (wanted.empty()) continue;
      const io::MappedTensor& mapped = file.at(tensor.record->name);
      if (tensor.record->pieces.empty()) copy_whole(mapped, *tensor.record, wanted);
      add_jobs(
          file, mapped, *tensor.record,
          [&](Index begin, Index end) { return slices_of(wanted, begin, end); }, found);
    }
    std::erase_if(found, [](const Job& job) { return job.slices.empty(); });
    return found;
  }

  void copy_whole(const io::MappedTensor& mapped, const io::TensorRecord& expected,
                  const std::vector<Wanted>& wanted) const {
    io::expect_sums(file.path(), mapped.bytes, expected);
    for (const Slice& slice : slices_of(wanted, 0, std::ssize(mapped.bytes)))
      std::memcpy(slice.memory.data(), mapped.bytes.data() + slice.offset, slice.memory.size());
  }

  io::SafetensorsFile file;
  const io::FileRecord& record;
  std::vector<Tensor> tensors{};
};

/// The files of a checkpoint that hold tensors of the contents. Throws Error where one is not as
/// the manifest says, or a tensor not as the contents say.
std::vector<std::unique_ptr<Source>> sources_of(const std::filesystem::path& folder,
                                                const io::CheckpointManifest& manifest,
                                                const FileContents& contents) {
  std::map<std::string_view, std::pair<const io::FileRecord*, const io::TensorRecord*>> listed;
  for (const io::FileRecord& file : manifest.files)
    for (const io::TensorRecord& tensor : file.tensors) listed[tensor.name] = {&file, &tensor};
  std::map<std::string_view, Source*> by_name;
  std::vector<std::unique_ptr<Source>> sources;
  for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
    const io::TensorSpec& wanted = contents.tensors[i];
    const auto place = listed.find(wanted.name);
    const bool is_listed = place != listed.end();
    const std::string& name = is_listed ? place->second.first->name : contents.name;
    Source*& source = by_name[name];
    if (source == nullptr) {
      sources.push_back(std::make_unique<Source>(folder, name, manifest));
      source = sources.back().get();
    }
    io::expect_tensor(source->file, wanted);
    require(is_listed, "files hold what the manifest lists");
    source->tensors.push_back({i, place->second.second});
  }
  return sources;
}

}  // namespace

void verify(storage::Engine& engine, const std::filesystem::path& folder,
            const io::CheckpointManifest& manifest) {
  for (const io::FileRecord& record : manifest.files) {
    const io::SafetensorsFile file(folder / record.name);
    io::expect_layout(file, manifest);
    std::vector<Job> jobs;
    for (const io::TensorRecord& tensor : record.tensors) {
      const io::MappedTensor& mapped = file.at(tensor.name);
      if (tensor.xxh3) io::expect_sums(file.path(), mapped.bytes, tensor);
      add_jobs(
          file, mapped, tensor, [](Index, Index) { return std::vector<Slice>{}; }, jobs);
    }
    const storage::File input = storage::File::open(file.path());
    Reading(engine, input, label_of(manifest, record.name)).read(jobs);
  }
}

void read_parts(storage::Engine& engine, const std::filesystem::path& folder,
                const io::CheckpointManifest& manifest, const FileContents& contents) {
  const std::vector<std::unique_ptr<Source>> sources = sources_of(folder, manifest, contents);
  const Targets targets(contents);
  for (const auto& source : sources) {
    std::vector<Job> jobs = source->jobs(targets);
    const storage::File input = storage::File::open(source->file.path());
    Reading(engine, input, label_of(manifest, source->record.name)).read(jobs);
  }
}

}  // namespace dos::checkpoint
