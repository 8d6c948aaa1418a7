// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/range_copy.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "checkpoint/piece.hpp"
#include "storage/blocking.hpp"
#include "storage/pages.hpp"

namespace dos::checkpoint {
namespace {

/// Bytes of a file that are being written while the next are read, in so many buffers.
constexpr std::size_t kBuffers = 4;
/// A multiple of every alignment.
constexpr Index kPartBytes = kPieceBytes;

/// Compares a range that is read from its first byte to its last with what was written.
class SumCheck {
 public:
  SumCheck(const std::filesystem::path& path, const SummedRange& range)
      : path_(path), range_(range), seen_(range.begin) {}

  /// The bytes behind those seen before.
  void see(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const SummedRange::Piece& piece = range_.pieces.at(next_);
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
  const SummedRange& range_;
  std::size_t next_ = 0;
  Index seen_;
  std::uint32_t found_ = 0;  ///< sum of what was seen of the next piece
};

}  // namespace

/// Buffers that are written from, in turns.
class RangeCopy::Buffers {
 public:
  class Borrowed;

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
class RangeCopy::Buffers::Borrowed {
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

RangeCopy::RangeCopy(storage::Engine& engine, const storage::Label& label, Turn turn)
    : engine_(engine),
      label_(label),
      turn_(std::move(turn)),
      buffers_(std::make_unique<Buffers>()) {}

RangeCopy::~RangeCopy() = default;

Index RangeCopy::bytes() {
  return static_cast<Index>(kBuffers) * kPartBytes;
}

void RangeCopy::begin(const storage::DirectFile& input, const SummedRange& range,
                      const storage::DirectFile& output) {
  SumCheck check(input.path(), range);
  for (Index offset = range.begin; offset < range.end();) {
    // At multiples, so that only the ends of a range are not aligned.
    const Index end = std::min((offset / kPartBytes + 1) * kPartBytes, range.end());
    Buffers::Borrowed buffer(*buffers_);
    const auto part = buffer.bytes().first(static_cast<std::size_t>(end - offset));
    storage::read(engine_, input, offset, part, label_);
    check.see(part);
    turn_(std::ssize(part));
    engine_.write(output, offset, part, buffer.until_written(), label_);
    offset = end;
  }
}

void RangeCopy::finish() {
  buffers_->finish();
}

}  // namespace dos::checkpoint
