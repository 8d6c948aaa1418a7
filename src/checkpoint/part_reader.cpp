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
#include "checkpoint/wanted.hpp"
#include "io/safetensors.hpp"
#include "io/tensor_slice.hpp"
#include "storage/direct_file.hpp"
#include "storage/pages.hpp"

namespace dos::checkpoint {
namespace {

/// Pieces that are read beside those which are read in place, for whose bytes there is no room
/// elsewhere.
constexpr Index kMostBuffered = 8;

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

/// Accesses to all buffers of the parts, and what they want.
class Targets : public WantedBytes {
 public:
  explicit Targets(const FileContents& contents) : Targets(contents, {}) {}

 private:
  using Accesses = std::vector<std::unique_ptr<rt::HostAccess>>;

  Targets(const FileContents& contents, Accesses accesses)
      : WantedBytes(contents, [&](const Part& part) { return open(part, accesses); }),
        accesses_(std::move(accesses)) {}

  static std::byte* open(const Part& part, Accesses& accesses) {
    accesses.push_back(std::make_unique<rt::HostAccess>(*part.handle, rt::Mode::kWrite));
    const rt::HostAccess& access = *accesses.back();
    return part.handle->type() == DType::kBF16 ? std::as_writable_bytes(access.as<BF16>()).data()
                                               : std::as_writable_bytes(access.as<float>()).data();
  }

  Accesses accesses_;
};

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
      : file(folder / name), record(io::record_of(file.path(), manifest)), part(manifest.part) {
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
    for (const Job& job : found) {
      expect(job.sum.part == part,
             "{}: tensor '{}': some of its bytes are on the disk of another node: resume on all "
             "nodes that wrote the checkpoint, or from one in --out",
             file.path().string(), job.tensor->name);
      bytes += job.sum.bytes;
    }
    return found;
  }

  io::SafetensorsFile file;
  const io::FileRecord& record;
  Index part;  ///< of the checkpoint, that is read
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
      // A file of another part may not be here.
      if (manifest.parts > 1 && targets.of(i).empty()) continue;
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
  for (const io::FileRecord& file : manifest.files)
    if (io::has_pieces_here(file, manifest)) verify(engine, folder, manifest, file);
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
  std::erase_if(jobs, [&](const Job& job) { return job.sum.part != manifest.part; });
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
