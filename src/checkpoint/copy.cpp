// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/copy.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
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

/// Parts of a file that are being written while the next is read.
constexpr std::size_t kBuffers = 4;
/// A multiple of every alignment.
constexpr Index kPartBytes = kPieceBytes;

/// Compares a file that is read from its first byte to its last with what was written.
class SumCheck {
 public:
  SumCheck(std::filesystem::path path, const io::SafetensorsLayout& layout,
           const io::FileRecord& record)
      : path_(std::move(path)), header_(layout.header()) {
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      Index offset = 0;
      for (const io::PieceSum& piece : record.tensors[i].pieces) {
        expected_.push_back({.tensor = &record.tensors[i].name,
                             .tensor_offset = offset,
                             .end = layout.tensors()[i].begin + offset + piece.bytes,
                             .sum = piece});
        offset += piece.bytes;
      }
    }
  }

  /// The bytes behind those seen before.
  void see(std::span<const std::byte> bytes) {
    bytes = bytes.subspan(see_header(bytes));
    while (!bytes.empty()) {
      require(next_ < expected_.size(), "pieces fill the file");
      const Expected& piece = expected_[next_];
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
  struct Expected {
    const std::string* tensor = nullptr;
    Index tensor_offset = 0;
    Index end = 0;  ///< in the file
    io::PieceSum sum;
  };

  /// How many of the bytes are the header's.
  std::size_t see_header(std::span<const std::byte> bytes) {
    const Index left = std::ssize(header_) - seen_;
    if (left <= 0) return 0;
    const auto count = std::min(bytes.size(), static_cast<std::size_t>(left));
    const auto wanted = std::as_bytes(std::span(header_)).subspan(static_cast<std::size_t>(seen_));
    expect(std::ranges::equal(bytes.first(count), wanted.first(count)),
           "{}: its header is not what was written; the checkpoint is damaged", path_.string());
    seen_ += static_cast<Index>(count);
    return count;
  }

  std::filesystem::path path_;
  std::string header_;
  std::vector<Expected> expected_;  ///< in the order of the file
  std::size_t next_ = 0;
  Index seen_ = 0;
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

void copy_file(storage::Engine& engine, const std::filesystem::path& source,
               const io::CheckpointStore::Staging& staging, const io::FileRecord& record,
               const storage::Label& label, const Turn& turn) {
  const io::SafetensorsLayout layout =
      layout_of(source, {record.tensors.begin(), record.tensors.end()});
  const storage::DirectFile input = storage::DirectFile::open(source);
  expect(input.size() == layout.bytes(), "{}: has {} bytes, {} were written", source.string(),
         input.size(), layout.bytes());
  const storage::DirectFile output = staging.create(record.name, layout.bytes());
  SumCheck check(source, layout, record);
  Buffers buffers;
  for (Index offset = 0; offset < layout.bytes(); offset += kPartBytes) {
    Borrowed buffer(buffers);
    const std::span<std::byte> part =
        buffer.bytes().first(static_cast<std::size_t>(std::min(kPartBytes, input.size() - offset)));
    storage::read(engine, input, offset, part, label);
    check.see(part);
    turn(std::ssize(part));
    engine.write(output, offset, part, buffer.until_written(), label);
  }
  buffers.finish();
  storage::sync(engine, output, label);
}

}  // namespace

Index copy_bytes() {
  return static_cast<Index>(kBuffers) * kPartBytes;
}

void copy_checkpoint(storage::Engine& engine, const io::CheckpointStore& from,
                     io::CheckpointStore& to, Index step, bool mark_best, KeptFile& kept,
                     const Turn& turn) {
  const std::filesystem::path source = from.resolve(std::to_string(step));
  const io::CheckpointManifest manifest = io::read_manifest(source);
  for (const io::FileRecord& record : manifest.files)
    for (const io::TensorRecord& tensor : record.tensors)
      expect(!tensor.xxh3,
             "{}: an older release wrote it, with one sum a tensor, and it is not copied; the next "
             "checkpoint is",
             source.string());
  io::CheckpointStore::Staging staging = to.begin(step);
  const storage::Label label{.purpose = storage::Purpose::kCheckpointCopy, .step = step};
  for (const io::FileRecord& record : manifest.files) {
    if (kept.in(to) == record && kept.link(to, staging.path() / record.name)) continue;
    copy_file(engine, source / record.name, staging, record, label, turn);
  }
  io::write_manifest(staging.path(), manifest);
  const std::filesystem::path folder = staging.commit(mark_best);
  for (const io::FileRecord& record : manifest.files)
    if (record.name == kFrozenFile) kept.keep(to, folder / record.name, record);
}

}  // namespace dos::checkpoint
