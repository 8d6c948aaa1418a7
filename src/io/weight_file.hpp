// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <string>

#include "base/file.hpp"
#include "base/mapped_file.hpp"
#include "storage/direct_file.hpp"
#include "storage/engine.hpp"
#include "storage/pages.hpp"

namespace dos::io {

/// Memory for bytes of a file that are on their way from the disk. One transfer at a time.
class ReadBuffer {
 public:
  /// Largest unit of a device that is read past the page cache.
  static constexpr Index kMostUnit = Index{64} << 10;

  /// For up to `most` bytes, and a unit before and behind them.
  explicit ReadBuffer(Index most) : most_(most) {}
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;
  /// Waits for what is on its way.
  ~ReadBuffer();

  /// Whether something was begun that is not forgotten.
  [[nodiscard]] bool is_begun() const noexcept { return fault_.valid(); }
  /// Whether nobody would wait for it.
  [[nodiscard]] bool has_ended() const {
    return !is_begun() || fault_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  /// Waits for what was begun; "" when it is there, else what went wrong, naming file and cause.
  /// Pre: is_begun().
  [[nodiscard]] const std::string& fault() const { return fault_.get(); }
  /// Bytes of the file from `offset` on. Pre: they belong to what was begun, and no fault().
  [[nodiscard]] std::span<const std::byte> bytes(Index offset, Index count) const;
  /// Waits for what was begun; the next may begin.
  void forget();

 private:
  friend class WeightFile;

  Index most_;
  std::unique_ptr<storage::Pages> pages_;
  std::span<const std::byte> memory_;      // of what was begun
  Index begin_ = 0;                        // in the file
  std::shared_future<std::string> fault_;  // "": none
};

/// A file that is read once: from the page cache where the system has it there; else past it, which
/// takes a fraction of the processor's time, and beside the program. Reading is thread-safe.
/// Members throw Error naming the path and the cause.
class WeightFile {
 public:
  explicit WeightFile(const std::filesystem::path& path);

  [[nodiscard]] const InputFile& input() const noexcept { return input_; }
  /// Whether these bytes should be begun ahead: some are not in memory.
  [[nodiscard]] bool is_away(Index offset, Index bytes) const;
  /// Begins to read bytes from `offset` on, of which the buffer tells when they are there. Engine
  /// and file must live until then. Pre: the buffer is for so many, and nothing is begun in it.
  void begin(Index offset, Index bytes, ReadBuffer& buffer, storage::Engine& engine) const;

 private:
  InputFile input_;
  storage::DirectFile direct_;
  MappedFile mapping_;  ///< its pages are asked for, not touched
};

}  // namespace dos::io
