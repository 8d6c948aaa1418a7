// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/run_lock.hpp"

namespace dos::io {

/// The first level of a run's checkpoints: a folder on a disk of the node, for one run alone, which
/// holds them as the run's own folder does. OUT/local.json says where it is, and on which line of
/// steps its checkpoints lie; a file of the same content in the folder says that they do. So what
/// lies on a node that the run has left, and gone back or begun anew elsewhere, is not taken for
/// the run's.
struct LocalLevel {
  std::filesystem::path folder;
  std::string line;

  bool operator==(const LocalLevel&) const = default;
};

/// DIRECTORY/NAME-HASH, which follows from the absolute path of the run's output folder.
std::filesystem::path local_folder(const std::filesystem::path& directory,
                                   const std::filesystem::path& out);

/// The first level that the run in `out` has on this node; nullopt when it has none, or not here.
std::optional<LocalLevel> find_local(const std::filesystem::path& out);

/// Where a run starts, seen from what its folders hold.
enum class LocalStart {
  kAnew,      ///< at step 0
  kGoesOn,    ///< behind the newest checkpoint
  kGoesBack,  ///< behind an earlier one
};

/// Creates and locks local_folder(), for one process of the run. Throws Error naming
/// train.checkpoint_local when the folder cannot be made, or another process has it.
RunLock lock_local(const std::filesystem::path& directory, const std::filesystem::path& out);

/// Makes the folder the run's: removes what is there of another line, and says in `out` that it is.
/// Pre: this process has locked it. Throws Error.
void take_local(const std::filesystem::path& directory, const std::filesystem::path& out,
                LocalStart start);

/// A run that has no first level from now on, and does not see the one it had, leaves it: what it
/// holds, on another node, is not on the way of the run any more. Throws Error.
void leave_unseen_local(const std::filesystem::path& out);

/// The checkpoints of a run, wherever they are: in its first level, if this process is to look
/// there and there is one, and in its own folder.
class CheckpointLevels {
 public:
  /// `without` as for CheckpointStore.
  explicit CheckpointLevels(const std::filesystem::path& out, bool with_local = true,
                            std::string without = CheckpointStore::kGiveRun);

  struct Found {
    Index step = 0;
    bool is_local = false;
    std::filesystem::path folder;
  };

  /// The `last` of the level where it is of the later step; of the first where both are of one. A
  /// first level that cannot be read is warned of and left out, and so is a `last` of the run's own
  /// folder that dangles, where the first level's is of no earlier step. Throws Error as
  /// CheckpointStore::last() else.
  [[nodiscard]] std::optional<Found> last() const;
  /// All complete ones that are not set aside, from the newest to the oldest, of one step the first
  /// level's first.
  [[nodiscard]] std::vector<Found> all() const;
  /// As CheckpointStore::resolve() of the run's own folder, but last() for "last", and of a step
  /// that of the first level if it is there, before what is set aside.
  [[nodiscard]] std::filesystem::path resolve(const std::string& selector) const;

  /// Whether the checkpoint is one of the run's.
  [[nodiscard]] bool owns(const std::filesystem::path& checkpoint) const;
  /// Whether it is, and the run's own folder has none of its step as `last`.
  [[nodiscard]] bool is_local_alone(const std::filesystem::path& checkpoint) const;

  [[nodiscard]] const CheckpointStore& shared() const { return shared_; }
  /// Null where there is none.
  [[nodiscard]] const CheckpointStore* local() const { return local_ ? &*local_ : nullptr; }

 private:
  [[nodiscard]] std::optional<Found> last_of(const CheckpointStore& store) const;

  CheckpointStore shared_;
  std::optional<CheckpointStore> local_;
};

}  // namespace dos::io
