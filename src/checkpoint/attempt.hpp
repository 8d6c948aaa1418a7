// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/event.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/kept_file.hpp"
#include "checkpoint/part_writer.hpp"
#include "checkpoint/taken_files.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/checkpoint_manifest.hpp"
#include "offload/away_states.hpp"
#include "storage/direct_file.hpp"

namespace dos::checkpoint {

/// How a checkpoint ended, the same on all ranks but for the figures of one.
struct Outcome {
  enum class End {
    kCommitted,  ///< it is there, and will be after a loss of power
    kGivenUp,    ///< storage failed; nothing is left of it
    kDropped,    ///< its step was not confirmed, or is not finite
    kLost,       ///< of this rank alone, perhaps: the others can no longer be told anything
  };
  Index step = 0;
  End end = End::kDropped;
  const io::CheckpointStore* store = nullptr;  ///< where it was to be
  bool is_best = false;                        ///< was to be marked so
  std::optional<double> validation_loss;       ///< the best one, of its manifest
  std::string fault;                           ///< of kGivenUp: path and cause; of kLost: the cause
  std::string bad_tensor;  ///< of kDropped: one with an element that is not finite, or ""
  /// From the first buffer that could be written to the link, but for waiting for the step's
  /// result.
  double seconds = 0;
  Index bytes = 0;         ///< that this rank has written
  Index copied_bytes = 0;  ///< of them, so that an update did not wait
  Index summed_bytes = 0;  ///< of them, whose sums no update had made
  Index linked_bytes = 0;  ///< beside them, that were on a disk already and are taken as they are
  double waited_s = 0;     ///< for which an update of this rank waited for nothing else
  double room_s = 0;       ///< for which this rank's submitting thread waited before it could begin
};

/// What checkpoints of a run have in common.
struct Surroundings {
  storage::Engine& engine;
  ranks::Exchange* exchange;                  ///< null: one rank
  Index buffers = PartWriter::kLeastBuffers;  ///< of a checkpoint, for copies
  /// What is wrong with what buffers hold that were granted so far; "": nothing. Any thread. Empty:
  /// nothing can be.
  std::function<std::string()> source_fault{};
  offload::AwayStates* disks = nullptr;  ///< gives files away (StateFiles); null: there are none
  KeptFile* kept = nullptr;              ///< the Writer's
  /// Of an update that waits for what a checkpoint holds, until there is a warning, and until it
  /// gets that where there are no files to write to yet; where there are, four times as long.
  std::chrono::duration<double> patience_of_updates{10};
};

/// One checkpoint on its way to the disk, on a thread of its own. Ranks write their parts of the
/// same files; then rank 0 collects their sums and makes it a checkpoint:
///
///   rank 0:  folder, files            -> all: go, and what need not be written, or the fault
///   all:     parts, as tasks allow, and files of states that are taken, or copied; flush to the
///            device; or the fault that updates could not wait for the files
///            wait until the step is confirmed
///   others:  sums, or the fault       -> rank 0
///   rank 0:  manifest, renaming, link -> all: done, or the fault
///
/// Where the folder is another one on each node (NodeFolders), the first rank of each makes it and
/// its files before rank 0 says go. The manifest goes to all of them, who rename theirs and say so,
/// before rank 0 does: what is committed in its folder is committed in each. They remove older
/// ones, or take theirs back, when they know how it ended.
class Attempt {
 public:
  /// `before`: set when the one before has ended, null for the
  /// first; commits keep the order of steps. On the submitting thread: what tasks submitted so far
  /// make is what is saved.
  /// `sums`: as PartWriter's.
  Attempt(const Surroundings& around, io::CheckpointStore& store, io::CheckpointManifest manifest,
          std::vector<FileContents> files, const StepSums* sums, bool mark_best,
          Agreement agreement, std::shared_ptr<Event> before);
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  /// Waits for the end, and for what hurry() has asked for.
  ~Attempt();

  [[nodiscard]] Index step() const { return step_; }
  /// "step 4, for 12 s, in OUT/checkpoints/step-00000004.tmp": what is under way, for messages.
  [[nodiscard]] std::string text() const;
  /// As PartWriter::hurry().
  void hurry(const optim::Optimizer& optimizer) { parts_.hurry(optimizer); }
  /// Loss and norm of the step are finite: what was written may become a checkpoint.
  void confirm();
  /// Drops it, unless the step was confirmed.
  void cancel();

  /// Set at the end.
  [[nodiscard]] std::shared_ptr<Event> over() const { return over_; }
  /// Whether the destructor of one that is over would not wait.
  [[nodiscard]] bool is_idle() const { return parts_.is_idle(); }
  /// Whether it was given up as an update had waited for too long. Pre: it is over.
  [[nodiscard]] bool has_held_up() const { return has_held_up_; }
  /// Waits for the end.
  [[nodiscard]] const Outcome& outcome();

 private:
  using Clock = std::chrono::steady_clock;

  /// For the buffers and files that are to be written, in the order of tasks.
  void ask();
  void run() noexcept;
  /// Warns when an update has waited for long, and gives all buffers back: at once if none is being
  /// written yet, else when it has waited longer. On a thread beside that of run(), until all are
  /// given back.
  void watch() noexcept;
  /// What becomes of the buffers.
  enum class Use { kNone, kWriting, kGivingBack };
  /// Whether it is this from now on: the first that is asked for.
  bool becomes(Use use);
  void carry_out();
  /// Adds where a file's tensors lie to layouts_. Returns its path.
  std::filesystem::path lay_out(const FileContents& contents);
  /// Whether `path` was made a second name of the store's constant file.
  bool takes_kept(const FileContents& contents, const std::filesystem::path& path);
  std::string create_files(std::optional<io::CheckpointStore::Staging>& staging);
  void create_file(const io::CheckpointStore::Staging& staging, std::size_t file);
  /// Creates the constant file, if a second name was made in its place.
  std::string write_kept(const io::CheckpointStore::Staging& staging);
  std::string open_files();
  /// Room on the device for what this rank writes, in files with holes.
  void reserve_parts();
  std::string flush();
  /// Waits for the files that are taken, names or copies them, and adds their pieces to the report.
  /// Returns when the first was there; the epoch if none was.
  Clock::time_point take_files(RankReport& report);
  /// Waits; whether it was confirmed.
  bool wait_for_verdict();
  RankReport write_parts(std::string fault);
  /// Completes the manifest by what all ranks report.
  Verdict assemble(const std::vector<std::string>& reports);
  std::string publish(io::CheckpointStore::Staging& staging);
  Verdict commit(std::optional<io::CheckpointStore::Staging>& staging,
                 const std::vector<std::string>& reports);
  void conclude(const Verdict& verdict);

  Surroundings around_;
  io::CheckpointStore& store_;
  Index step_;
  io::CheckpointManifest manifest_;  ///< of the thread
  std::vector<FileContents> contents_;
  bool mark_best_;
  Agreement agreement_;
  std::shared_ptr<Event> before_;
  std::vector<io::SafetensorsLayout> layouts_;
  std::vector<std::optional<storage::DirectFile>> files_;  ///< none: not written
  bool takes_kept_ = false;                                ///< the constant file is there already
  std::optional<io::FileRecord> kept_;                     ///< of it, where this rank leads
  PartWriter parts_;
  TakenFiles taken_{contents_};
  bool must_prune_ = false;  ///< what the commit has not

  Event asked_;             ///< whether the thread has something to do is known
  bool has_asked_ = false;  ///< before that is set

  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  bool is_confirmed_ = false;
  bool is_cancelled_ = false;
  Use use_ = Use::kNone;

  bool has_held_up_ = false;  ///< of watch(), as what follows
  double waited_s_ = 0;       ///< by an update for what was given back; of watch()
  Outcome outcome_;
  const Clock::time_point begun_ = Clock::now();
  const std::shared_ptr<Event> over_ = std::make_shared<Event>();
  std::thread thread_;
};

}  // namespace dos::checkpoint
