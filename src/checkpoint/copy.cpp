// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/copy.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "checkpoint/contents.hpp"
#include "checkpoint/piece.hpp"
#include "io/checkpoint_manifest.hpp"
#include "storage/blocking.hpp"
#include "storage/direct_file.hpp"
#include "storage/pages.hpp"

namespace dos::checkpoint {
namespace {

/// Bytes of a file that are being written while the next are read, in so many buffers.
constexpr std::size_t kBuffers = 4;
/// A multiple of every alignment.
constexpr Index kPartBytes = kPieceBytes;

/// Bytes of a file that lie side by side, in pieces of one part of the checkpoint.
struct Range {
  struct Piece {
    const std::string* tensor = nullptr;
    Index tensor_offset = 0;
    Index end = 0;  ///< in the file
    io::PieceSum sum;
  };

  Index begin = 0;
  std::vector<Piece> pieces{};  ///< at least one

  [[nodiscard]] Index end() const { return pieces.back().end; }
};

std::vector<Range> ranges_of(const io::SafetensorsLayout& layout, const io::FileRecord& record,
                             Index part) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    Index offset = 0;
    for (const io::PieceSum& sum : record.tensors[i].pieces) {
      const Index begin = layout.tensors()[i].begin + offset;
      if (sum.part == part) {
        if (ranges.empty() || ranges.back().end() != begin) ranges.push_back({.begin = begin});
        ranges.back().pieces.push_back({.tensor = &record.tensors[i].name,
                                        .tensor_offset = offset,
                                        .end = begin + sum.bytes,
                                        .sum = sum});
      }
      offset += sum.bytes;
    }
  }
  return ranges;
}

/// Compares a range that is read from its first byte to its last with what was written.
class SumCheck {
 public:
  SumCheck(const std::filesystem::path& path, const Range& range)
      : path_(path), range_(range), seen_(range.begin) {}

  /// The bytes behind those seen before.
  void see(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const Range::Piece& piece = range_.pieces.at(next_);
      const auto count = std::min(bytes.size(), static_cast<std::size_t>(piece.end - seen_));
      found_ = crc32c(bytes.first(count), found_);
      seen_ += static_cast<Index>(count);
      bytes = bytes.subspan(count);
      if (seen_ < piece.end) return;
      if (found_ != piece.sum.crc32c)
        io::fail_piece(path_, *piece.tensor, piece.tensor_offset, piece.sum, found_);
      found_ = 0;
      ++next_;
    }
  }

 private:
  const std::filesystem::path& path_;
  const Range& range_;
  std::size_t next_ = 0;
  Index seen_;
  std::uint32_t found_ = 0;  ///< sum of what was seen of the next piece
};

/// Buffers that are written from, in turns.
class Buffers {
 public:
  Buffers() {
    for (auto& each : all_) {
      each = std::make_unique<storage::Pages>(kPartBytes);
      free_.push_back(each.get());
    }
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers() { wait(kBuffers); }

  /// Throws Error with the fault of a write that has failed.
  storage::Pages* take() {
    wait(1);
    const std::lock_guard lock(mutex_);
    expect(fault_.empty(), "{}", fault_);
    storage::Pages* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_back(storage::Pages* buffer, const std::string& fault) {
    const std::lock_guard lock(mutex_);
    if (fault_.empty()) fault_ = fault;
    free_.push_back(buffer);
    changed_.notify_all();
  }
  /// Until all was written; throws as take().
  void finish() {
    wait(kBuffers);
    expect(fault_.empty(), "{}", fault_);
  }

 private:
  void wait(std::size_t buffers) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return free_.size() >= buffers; });
  }

  std::array<std::unique_ptr<storage::Pages>, kBuffers> all_;
  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::vector<storage::Pages*> free_;
  std::string fault_;
};

/// A buffer that goes back, unless it is being written.
class Borrowed {
 public:
  explicit Borrowed(Buffers& buffers) : buffers_(buffers), buffer_(buffers.take()) {}
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    if (buffer_ != nullptr) buffers_.give_back(buffer_, "");
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return buffer_->bytes(); }
  [[nodiscard]] storage::Done until_written() {
    return [&buffers = buffers_, buffer = std::exchange(buffer_, nullptr)](
               const std::string& fault) { buffers.give_back(buffer, fault); };
  }

 private:
  Buffers& buffers_;
  storage::Pages* buffer_;
};

/// What copies of the files of one checkpoint have in common.
struct Copying {
  storage::Engine& engine;
  std::filesystem::path source;
  const io::CheckpointManifest& manifest;  ///< of the part that is there
  storage::Label label;
  const Turn& turn;
};

io::SafetensorsLayout layout_of(const std::filesystem::path& path, const io::FileRecord& record) {
  return checkpoint::layout_of(path, {record.tensors.begin(), record.tensors.end()});
}

/// A file of a checkpoint in `staging` that has its header.
storage::DirectFile create_file(storage::Engine& engine,
                                const io::CheckpointStore::Staging& staging,
                                const io::FileRecord& record, const storage::Label& label,
                                const Turn& turn) {
  const io::SafetensorsLayout layout = layout_of(staging.path() / record.name, record);
  storage::DirectFile file = staging.create(record.name, layout.bytes());
  turn(std::ssize(layout.header()));
  storage::write(engine, file, 0, layout.header(), label);
  return file;
}

/// Copies what the part has of a file to the same places of `output`, and flushes it.
void copy_pieces(const Copying& copying, const io::FileRecord& record,
                 const storage::DirectFile& output) {
  const std::filesystem::path source = copying.source / record.name;
  const io::SafetensorsLayout layout = layout_of(source, record);
  const storage::DirectFile input = storage::DirectFile::open(source);
  expect(input.size() == layout.bytes(), "{}: has {} bytes, {} were written", source.string(),
         input.size(), layout.bytes());
  io::expect_layout(io::SafetensorsFile(source), copying.manifest);
  Buffers buffers;
  for (const Range& range : ranges_of(layout, record, copying.manifest.part)) {
    SumCheck check(source, range);
    for (Index offset = range.begin; offset < range.end();) {
      // At multiples, so that only the ends of a range are not aligned.
      const Index end = std::min((offset / kPartBytes + 1) * kPartBytes, range.end());
      Borrowed buffer(buffers);
      const auto part = buffer.bytes().first(static_cast<std::size_t>(end - offset));
      storage::read(copying.engine, input, offset, part, copying.label);
      check.see(part);
      copying.turn(std::ssize(part));
      copying.engine.write(output, offset, part, buffer.until_written(), copying.label);
      offset = end;
    }
  }
  buffers.finish();
  storage::sync(copying.engine, output, copying.label);
}

/// copy_pieces() of each file in `target` that the part has any of, but for those of the names
/// `kept`.
void copy_files(const Copying& copying, const std::filesystem::path& target,
                const std::set<std::string>& kept) {
  for (const io::FileRecord& record : copying.manifest.files)
    if (!kept.contains(record.name) && io::has_pieces_here(record, copying.manifest))
      copy_pieces(copying, record, storage::DirectFile::open_to_write(target / record.name));
}

storage::Label label_of(Index step) {
  return {.purpose = storage::Purpose::kCheckpointCopy, .step = step};
}

void expect_pieces(const std::filesystem::path& source, const io::CheckpointManifest& manifest) {
  for (const io::FileRecord& record : manifest.files)
    for (const io::TensorRecord& tensor : record.tensors)
      expect(!tensor.xxh3,
             "{}: an older release wrote it, with one sum a tensor, and it is not copied; the next "
             "checkpoint is",
             source.string());
}

}  // namespace

Index copy_bytes() {
  return static_cast<Index>(kBuffers) * kPartBytes;
}

void copy_checkpoint(storage::Engine& engine, const io::CheckpointStore& from,
                     io::CheckpointStore& to, Index step, bool mark_best, KeptFile& kept,
                     const Turn& turn, const Others& others) {
  const std::filesystem::path source = from.resolve(std::to_string(step));
  const io::CheckpointManifest manifest = io::read_manifest(source);
  expect_pieces(source, manifest);
  const io::CheckpointManifest whole = io::in_one_folder(manifest);
  const Copying copying{engine, source, manifest, label_of(step), turn};
  io::CheckpointStore::Staging staging = to.begin(step);
  std::set<std::string> kept_names;
  for (const io::FileRecord& record : whole.files) {
    if (kept.in(to) == record && kept.link(to, staging.path() / record.name))
      kept_names.insert(record.name);
    else
      // One is open at a time: there may be one a subgroup.
      storage::sync(engine, create_file(engine, staging, record, copying.label, turn),
                    copying.label);
  }
  others(manifest, kept_names, [&] { copy_files(copying, staging.path(), kept_names); });
  io::write_manifest(staging.path(), whole);
  const std::filesystem::path folder = staging.commit(mark_best);
  for (const io::FileRecord& record : whole.files)
    if (record.name == kFrozenFile) kept.keep(to, folder / record.name, record);
}

io::CheckpointStore::Staging begin_copy(storage::Engine& engine, io::CheckpointStore& to,
                                        const io::CheckpointManifest& whole) {
  io::CheckpointStore::Staging staging = to.begin(whole.step);
  const storage::Label label = label_of(whole.step);
  for (const io::FileRecord& record : whole.files)
    storage::sync(engine, create_file(engine, staging, record, label, [](Index) {}), label);
  return staging;
}

Index copy_part(storage::Engine& engine, const io::CheckpointStore& from,
                const io::CheckpointStore& to, Index step, std::uint64_t identity,
                const std::set<std::string>& kept, const Turn& turn) {
  const std::filesystem::path source = from.resolve(std::to_string(step));
  const io::CheckpointManifest manifest = io::read_manifest(source);
  expect(io::identity_of(manifest) == identity,
         "{}: is no part of the checkpoint of step {} that other nodes have", source.string(),
         step);
  const Copying copying{engine, source, manifest, label_of(step), turn};
  copy_files(copying, to.staging_path(step), kept);
  return manifest.part;
}

}  // namespace dos::checkpoint
