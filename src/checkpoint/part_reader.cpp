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
  return {.purpose = storage::Purpose::kCheckpoint,
          .step = manifest.step,
          .category = file == kModelFile ? MemoryCategory::kParameters : MemoryCategory::kStates};
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
  const io::SafetensorsFile file(folder / contents.name);
  io::expect_layout(file, manifest);
  for (const io::TensorSpec& tensor : contents.tensors) io::expect_tensor(file, tensor);
  std::map<std::string_view, const io::TensorRecord*> records;
  for (const io::TensorRecord& record : io::record_of(file.path(), manifest).tensors)
    records.emplace(record.name, &record);
  const Targets targets(contents);
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
    const std::vector<Wanted>& wanted = targets.of(i);
    if (wanted.empty()) continue;
    const io::MappedTensor& tensor = file.at(contents.tensors[i].name);
    const io::TensorRecord& record = *records.at(tensor.name);
    if (record.pieces.empty()) {
      io::expect_sums(file.path(), tensor.bytes, record);
      for (const Slice& slice : slices_of(wanted, 0, std::ssize(tensor.bytes)))
        std::memcpy(slice.memory.data(), tensor.bytes.data() + slice.offset, slice.memory.size());
      continue;
    }
    add_jobs(
        file, tensor, record, [&](Index begin, Index end) { return slices_of(wanted, begin, end); },
        jobs);
  }
  std::erase_if(jobs, [](const Job& job) { return job.slices.empty(); });
  const storage::File input = storage::File::open(file.path());
  Reading(engine, input, label_of(manifest, contents.name)).read(jobs);
}

}  // namespace dos::checkpoint
