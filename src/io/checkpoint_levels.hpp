// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/run_lock.hpp"

namespace dos::io {

/// The first level of a run's checkpoints: a folder on a disk of each node, for one run alone,
/// which holds them as the run's own folder does, or of each the part that the node's ranks have
/// written. OUT/local.json says where it is, and on which line of steps its checkpoints lie; a file
/// of the same content in the folder says that they do. So what lies on a node that the run has
/// left, and gone back or begun anew elsewhere, is not taken for the run's.
struct LocalLevel {
  std::filesystem::path folder;
  std::string line;
  std::string next{};  ///< in OUT, while nodes go over to another line: that; else ""

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

/// Creates and locks local_folder(), for one process of the node. Throws Error naming
/// train.checkpoint_local when the folder cannot be made, or another process has it.
RunLock lock_local(const std::filesystem::path& directory, const std::filesystem::path& out);

/// The line on which a run's checkpoints lie from now on, in local_folder() of each node: that of
/// before where the run goes on and `has_all`, each node has the folder; else a new one.
std::string line_of(const std::filesystem::path& directory, const std::filesystem::path& out,
                    LocalStart start, bool has_all = true);

/// Makes the folder of this node the run's, with that line_of(): removes what is there of another,
/// or of a run that begins anew. Pre: a process of this node has locked it. Throws Error.
void take_local(const std::filesystem::path& directory, const std::filesystem::path& out,
                LocalStart start, const std::string& line);

/// Says in `out` that nodes are about to take their folders: until note_local() says that they
/// have, what is on either line is the run's. Both throw Error.
void announce_local(const std::filesystem::path& directory, const std::filesystem::path& out,
                    const std::string& line);
void note_local(const std::filesystem::path& directory, const std::filesystem::path& out,
                const std::string& line);

/// A run that has no first level from now on, and does not see the one it had, leaves it: what it
/// holds, on another node, is not on the way of the run any more. Throws Error.
void leave_unseen_local(const std::filesystem::path& out);

/// The checkpoints of a run, wherever they are: in its first level, if there is one, and in its own
/// folder.
class CheckpointLevels {
 public:
  /// `local_steps`: of the first level, those that are looked at; nullopt: those that are whole on
  /// this node. `without` as for CheckpointStore.
  explicit CheckpointLevels(const std::filesystem::path& out,
                            std::optional<std::set<Index>> local_steps = std::nullopt,
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
  /// Null where there is none. With checkpoints that are not looked at.
  [[nodiscard]] const CheckpointStore* local() const { return local_ ? &*local_ : nullptr; }

 private:
  [[nodiscard]] std::optional<Found> last_of(const CheckpointStore& store) const;
  [[nodiscard]] std::optional<Found> last_local() const;
  [[nodiscard]] bool looks_at(Index step, const std::filesystem::path& folder) const;

  CheckpointStore shared_;
  std::optional<CheckpointStore> local_;
  std::optional<std::set<Index>> local_steps_;
};

}  // namespace dos::io
