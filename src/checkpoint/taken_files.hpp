// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/contents.hpp"
#include "checkpoint/piece.hpp"
#include "checkpoint/range_copy.hpp"
#include "io/safetensors_layout.hpp"
#include "offload/away_states.hpp"
#include "offload/state_version.hpp"
#include "storage/direct_file.hpp"
#include "storage/engine.hpp"

namespace dos::checkpoint {

/// Files of states that are on disks already (StateFiles): they become a checkpoint's by a name in
/// its folder, or are copied there from another file system.
class TakenFiles {
 public:
  using Clock = std::chrono::steady_clock;

  /// `contents`, of the checkpoint's files, outlives the object.
  explicit TakenFiles(std::span<const FileContents> contents) : contents_(contents) {}

  /// For what the tasks submitted so far make of those that `disks` has; null: none.
  void ask(offload::AwayStates* disks);

  struct Taken {
    Clock::time_point began{};  ///< when the first was there; the epoch if none was
    Index named_bytes = 0;
    Index copied_bytes = 0;
  };
  /// Waits for each file, and names it in `folder`, or copies it; a copy is on the device then.
  /// Adds the pieces, or a fault, to the report. `layouts`: by file. Pre: it has no fault.
  Taken take(storage::Engine& engine, const storage::Label& label,
             const std::filesystem::path& folder, std::span<const io::SafetensorsLayout> layouts,
             const Turn& turn, RankReport& report);

  /// Those that were named, which are to be flushed, and whether any was named or copied, so that
  /// the folder is.
  [[nodiscard]] std::vector<const storage::DirectFile*> named() const;
  [[nodiscard]] bool has_any() const { return has_any_; }

 private:
  std::span<const FileContents> contents_;
  std::vector<std::shared_ptr<offload::StateVersion>> versions_;  ///< by file; null: not one
  bool has_any_ = false;
};

}  // namespace dos::checkpoint
