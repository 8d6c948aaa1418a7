// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace dos::io {

/// The checkpoints of a run, OUT/checkpoints: one folder a step ("step-00000010") and the symbolic
/// links `last` and `best`. A folder is written under a name ending in ".tmp" and renamed when it
/// is on the device, so that a crash at any moment leaves every link at a complete checkpoint:
///
///   step-N.tmp            being written, or left over from a crash
///   step-N                complete
///   step-N.old            the links' refuge while an existing step-N is replaced
///   step-N.discarded.tmp  no longer a checkpoint, being removed
///
/// Any number of processes may read; one process, one thread of it, may write. Nothing is created
/// or removed before the first begin().
class CheckpointStore {
 public:
  /// A checkpoint being written. Without commit() the destructor removes it.
  class Staging {
   public:
    Staging(Staging&& other) noexcept;
    Staging& operator=(Staging&&) = delete;
    ~Staging();

    /// Where its files go.
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

    /// Flushes every file to the device, gives the folder its final name, lets `last` point to it,
    /// and `best` if `mark_best`; then removes the checkpoints that are not kept. Returns the final
    /// folder. Pre: called once. Throws Error, with the links as they were, or at a complete older
    /// copy of the same step.
    std::filesystem::path commit(bool mark_best);

   private:
    friend class CheckpointStore;
    Staging(CheckpointStore& store, Index step);

    CheckpointStore* store_;
    Index step_;
    std::filesystem::path path_;
  };

  /// `keep`: how many checkpoints a commit leaves besides `best`, the new one included; later steps
  /// (of a run resumed from an earlier one) stay until the run passes them. Pre: keep >= 1.
  /// `without`: what the program's user can do where there is no checkpoint, for messages.
  explicit CheckpointStore(std::filesystem::path out, Index keep = 1,
                           std::string without = "give the folder that train_gpt --out wrote");
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Starts a checkpoint, after removing what a crash left behind. Pre: step >= 0, the store
  /// outlives the Staging, and there is no other. Throws Error when the folder cannot be created.
  [[nodiscard]] Staging begin(Index step);

  /// Where begin(step) makes its folder: for processes that add files to it.
  [[nodiscard]] std::filesystem::path staging_path(Index step) const;

  /// The folder the link points to, nullopt without a link. Throws Error when the link dangles.
  [[nodiscard]] std::optional<std::filesystem::path> last() const { return follow("last"); }
  [[nodiscard]] std::optional<std::filesystem::path> best() const { return follow("best"); }

  /// Whether `checkpoint` is one of this run's.
  [[nodiscard]] bool owns(const std::filesystem::path& checkpoint) const;

  /// Complete checkpoints, ascending.
  [[nodiscard]] std::vector<Index> steps() const;

  /// The step that a checkpoint's folder (or a link to it) is named after; nullopt when a person
  /// has given it another name.
  static std::optional<Index> step_of_folder(const std::filesystem::path& folder);

  /// The folder that "last", "best", a step number, or a path names; a path may be a checkpoint or
  /// another run's OUT, whose `last` is taken. Throws Error when there is none.
  [[nodiscard]] std::filesystem::path resolve(const std::string& selector) const;

 private:
  std::filesystem::path publish(const std::filesystem::path& staging, Index step, bool mark_best);
  [[nodiscard]] std::optional<std::filesystem::path> follow(const std::string& link) const;
  [[nodiscard]] std::filesystem::path resolve_step(const std::string& digits) const;
  [[nodiscard]] bool refers(const std::string& link, const std::string& target) const;
  [[nodiscard]] std::string available() const;
  [[nodiscard]] std::vector<std::string> entries() const;
  void point(const std::string& link, const std::string& target) const;
  void repoint(const std::string& from, const std::string& to) const;
  void move_aside(const std::string& name) const;
  void discard(const std::string& name) const;
  void remove_leftovers() const;
  void settle_refuges() const;
  void prune(Index newest) const;

  std::filesystem::path out_;
  std::filesystem::path folder_;
  Index keep_;
  std::string without_;
  bool writing_ = false;
};

}  // namespace dos::io
