// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "io/checkpoint_manifest.hpp"
#include "storage/direct_file.hpp"
#include "storage/engine.hpp"

namespace dos::checkpoint {

/// Asked before each part of a copy is written, with its bytes: may wait, and throws what is to end
/// the copy.
using Turn = std::function<void(Index bytes)>;

/// Bytes of a file that lie side by side, in pieces whose sums are known.
struct SummedRange {
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

/// Copies ranges from file to file; each byte is compared with its sum on its way.
class RangeCopy {
 public:
  RangeCopy(storage::Engine& engine, const storage::Label& label, Turn turn);
  RangeCopy(const RangeCopy&) = delete;
  RangeCopy& operator=(const RangeCopy&) = delete;
  /// Waits for what is being written.
  ~RangeCopy();

  /// Memory that one takes, beside what an engine needs for memory that is not aligned, as this is.
  static Index bytes();

  /// Reads the range and begins to write it to the same place of `output`, which stays until
  /// finish(). Throws Error, also of an earlier write, naming path and cause, or file and tensor.
  void begin(const storage::DirectFile& input, const SummedRange& range,
             const storage::DirectFile& output);
  /// All is written, but not flushed. Throws as begin().
  void finish();

 private:
  class Buffers;

  storage::Engine& engine_;
  storage::Label label_;
  Turn turn_;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace dos::checkpoint
