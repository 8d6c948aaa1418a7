// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "io/discarded_folders.hpp"
#include "io/folder_place.hpp"
#include "io/retention.hpp"
#include "storage/direct_file.hpp"

namespace dos::io {

struct AsideName;
class RunLock;

/// The folder of a run's checkpoints, in that of the run.
inline constexpr const char* kCheckpointsName = "checkpoints";

/// When a checkpoint was completed: the time of its manifest, or of its folder without one.
std::filesystem::file_time_type written_at(const std::filesystem::path& checkpoint);

/// The checkpoints of a run, OUT/checkpoints: one folder a step ("step-00000010") and the symbolic
/// links `last` and `best`. A folder is written under a name ending in ".tmp" and renamed when it
/// is on the device, so that a crash at any moment leaves every link at a complete checkpoint:
///
///   step-N.tmp            being written, or left over from a crash
///   step-N                complete
///   step-N.old            the links' refuge while an existing step-N is replaced
///   step-N.discarded.tmp  no longer a checkpoint, being removed, or written over by the next
///   step-N.after-M        complete, set aside: the run has gone back to step M since
///
/// Any number of processes may read; one process may write, from any thread. Nothing is created or
/// removed before the first begin().
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

    /// A new file of `bytes` bytes there, to be written: after recycle(), one of a removed
    /// checkpoint with what it holds, if one of this name and size is there that nobody else has.
    /// Throws Error.
    [[nodiscard]] storage::DirectFile create(
        const std::string& name, Index bytes,
        storage::DirectFile::Room room = storage::DirectFile::Room::kAll) const {
      const std::filesystem::path file = path_ / name;
      return store_->discarded_.reuse(file, bytes) ? storage::DirectFile::open_to_write(file)
                                                   : storage::DirectFile::create(file, bytes, room);
    }

    /// Flushes the folder to the device, gives it its final name, lets `last` point to it, and
    /// `best` if `mark_best`; then takes out the checkpoints that are not kept, which
    /// remove_discarded() removes. Returns the final folder. Pre: its files are on the device;
    /// called once, and without go_on_from() in the order of steps. Throws Error, with the links as
    /// they were, or at a complete older copy of the same step, and nothing left of this one but
    /// what the destructor removes. Without `prunes` nothing is removed: it may be taken back.
    std::filesystem::path commit(bool mark_best, bool prunes = true);

   private:
    friend class CheckpointStore;
    Staging(CheckpointStore& store, Index step);

    CheckpointStore* store_;
    Index step_;
    std::filesystem::path path_;
  };

  /// Keeps a checkpoint, there or to come, from being removed by commits.
  class Hold {
   public:
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&&) = delete;
    ~Hold();

   private:
    friend class CheckpointStore;
    Hold(CheckpointStore& store, Index step);

    CheckpointStore* store_;
    Index step_;
  };

  /// A checkpoint that is set aside.
  struct Aside {
    Index step = 0;
    std::filesystem::path folder;
  };

  static constexpr const char* kGiveRun = "give the folder that train_gpt --out wrote";

  /// `retention`: which checkpoints a commit leaves besides `best`, the new one among the newest;
  /// later steps (of a run resumed from an earlier one) stay until the run passes them. Pre: keep
  /// >= 1. `without`: what the program's user can do where there is no checkpoint, for messages.
  explicit CheckpointStore(std::filesystem::path out, const Retention& retention = {},
                           std::string without = kGiveRun);
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;
  ~CheckpointStore() { discarded_.remove(); }

  /// Where the checkpoint of a step is, if there is one that is not set aside.
  [[nodiscard]] std::filesystem::path folder_of(Index step) const;

  /// From now on checkpoints that commits remove wait for Staging::create(), as many as have been
  /// written at once, for as long as the object lives.
  void recycle() { recycles_ = true; }

  /// The run's folder is locked by this, which outlives the object: each begin() lets it keep that.
  void set_lock(RunLock* lock) { lock_ = lock; }

  /// The run begins: its folder is to stay on the disk that it is on, if it is there.
  void stay();

  /// Starts a checkpoint, after removing what a crash left behind. Pre: step >= 0, the store
  /// outlives the Staging, and no other of this step is being written. Throws Error when the folder
  /// cannot be created, is another run's by now, or, after stay(), is gone or on another disk: one
  /// that a disk was mounted on is not taken for it, and only that of checkpoints is made anew.
  [[nodiscard]] Staging begin(Index step);

  /// Removes what commits have taken out, which may take as long as writing it did; without, the
  /// next begin() does. Any thread.
  void remove_discarded() const noexcept;

  /// Where begin(step) makes its folder: for processes that add files to it.
  [[nodiscard]] std::filesystem::path staging_path(Index step) const;

  /// The last commit, of this step, is none after all: links point to what they did before. Warns
  /// where that fails. Pre: it pruned nothing, and no prune() came since.
  void take_back(Index step);

  /// Pre: the store outlives the Hold.
  [[nodiscard]] Hold hold(Index step) { return {*this, step}; }

  /// The run goes on from this step, from `checkpoint`, of this store or not: a `last` of a later
  /// one returns to the newest that is not later, or goes if there is none. Checkpoints of later
  /// steps, which the run is no longer behind, are set aside under other names, where links follow
  /// them: of these commits remove what is of no later step. One that was set aside comes back,
  /// with those before it, and what the run has made since takes its place there. From now on
  /// commits may come in any order: no link moves back to an earlier step. Pre: nothing is being
  /// written. Throws Error.
  void go_on_from(Index step, const std::filesystem::path& checkpoint = {});

  /// From now on commits may come in any order: no link moves back to an earlier step. Throws
  /// Error.
  void keep_links();

  /// The steps that the rule would remove now, of those up to `last`.
  [[nodiscard]] std::vector<Index> surplus() const;
  /// Removes them; returns those that are gone. Warns of the others.
  std::vector<Index> prune();
  /// What prune() removes, too, of what is set aside.
  [[nodiscard]] std::vector<Aside> surplus_aside() const;

  /// The folder the link points to, nullopt without a link. Throws Error when the link dangles.
  [[nodiscard]] std::optional<std::filesystem::path> last() const { return follow("last"); }
  [[nodiscard]] std::optional<std::filesystem::path> best() const { return follow("best"); }
  /// The step that `last` names, whether its checkpoint is there or not; nullopt as
  /// step_of_folder().
  [[nodiscard]] std::optional<Index> named_last() const { return step_of_folder(folder_ / "last"); }

  /// Whether `checkpoint` is one of this run's.
  [[nodiscard]] bool owns(const std::filesystem::path& checkpoint) const;

  /// Complete checkpoints, but for what is set aside, ascending.
  [[nodiscard]] std::vector<Index> steps() const;

  /// What is set aside, ascending; of one step the oldest first.
  [[nodiscard]] std::vector<Aside> aside() const;
  /// The newest of a step; nullopt: there is none.
  [[nodiscard]] std::optional<std::filesystem::path> find_aside(Index step) const;
  /// Whether there is a complete one, set aside or not.
  [[nodiscard]] bool has_any() const { return !steps().empty() || !aside().empty(); }
  /// Whether the checkpoint that this folder, or a link to it, holds is set aside.
  static bool is_aside(const std::filesystem::path& checkpoint);

  /// The step that a checkpoint's folder (or a link to it) is named after, whether it is there or
  /// not; nullopt when a person has given it another name.
  static std::optional<Index> step_of_folder(const std::filesystem::path& folder);

  /// The folder that "last", "best", a step number, or a path names; of a step that is set aside
  /// alone, the newest; a path may be a checkpoint or another run's OUT, whose `last` is taken.
  /// Throws Error when there is none.
  [[nodiscard]] std::filesystem::path resolve(const std::string& selector) const;

 private:
  /// What changes the folder has the lock. What it discards is removed behind it: others do not
  /// wait for as long as that takes.
  class Change {
   public:
    explicit Change(const CheckpointStore& store) : store_(store), lock_(store.mutex_) {}
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    ~Change() {
      lock_.unlock();
      store_.remove_discarded();
    }

   private:
    const CheckpointStore& store_;
    std::unique_lock<std::recursive_mutex> lock_;
  };

  /// Of `last` and `best`; nullopt: there is no such link.
  using LinkTargets = std::array<std::optional<std::string>, 2>;

  void make_folder();
  std::filesystem::path publish(const std::filesystem::path& staging, Index step, bool mark_best,
                                bool prunes);
  void restore_links(const std::string& name, const LinkTargets& before) const;
  void withdraw(const std::string& name, const std::filesystem::path& staging,
                const LinkTargets& before) const;
  [[nodiscard]] LinkTargets link_targets() const;
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
  [[nodiscard]] Index last_step() const;
  [[nodiscard]] bool is_held(Index step) const;
  [[nodiscard]] std::vector<Index> surplus(Index newest) const;
  std::vector<Index> prune(Index newest) const;
  static std::string name_of_folder(const std::filesystem::path& folder);
  void give_name(const std::string& from, const std::string& to) const;
  void set_aside(const std::vector<Index>& later, Index after) const;
  void bring_back(const AsideName& chosen) const;
  void take_last_back(Index step) const;
  [[nodiscard]] std::vector<Aside> surplus_aside(Index newest) const;

  std::filesystem::path out_;
  std::filesystem::path folder_;
  FolderPlace place_;              ///< of out_
  FolderPlace checkpoints_place_;  ///< of folder_, which may be a link
  Retention retention_;
  std::string without_;
  mutable std::recursive_mutex mutex_;
  mutable DiscardedFolders discarded_;
  RunLock* lock_ = nullptr;
  std::set<std::string> writing_;  ///< names of the folders
  std::size_t most_writing_ = 0;   ///< at once
  bool recycles_ = false;
  bool is_ordered_ = true;          ///< commits come in the order of steps
  Index newest_ = -1;               ///< step of the newest commit, or from which the run goes on
  Index newest_best_ = -1;          ///< of the newest commit of a best one
  LinkTargets links_before_;        ///< before the last commit
  mutable std::mutex holds_mutex_;  ///< of what follows: nobody waits for a disk with it
  std::multiset<Index> held_;       ///< steps
};

}  // namespace dos::io
