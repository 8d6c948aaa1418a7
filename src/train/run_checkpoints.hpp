// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/copier.hpp"
#include "checkpoint/node_folders.hpp"
#include "checkpoint/writer.hpp"
#include "config/train_config.hpp"
#include "io/run_lock.hpp"
#include "ranks/gather.hpp"
#include "storage/engine.hpp"
#include "train/checkpoint_interval.hpp"
#include "train/metrics.hpp"
#include "train/run_states.hpp"
#include "train/storage_trace.hpp"

namespace dos::train {

/// What the checkpoints of a run are written with.
struct CheckpointInputs {
  std::filesystem::path out;
  const config::TrainConfig& config;
  RunStates& states;
  ranks::Exchange* exchange = nullptr;  ///< null: one rank
  bool writes = true;                   ///< to the run's folder, and the manifest: rank 0
  std::function<std::unique_ptr<storage::Backend>()> storage = &storage::make_backend;
  io::CheckpointManifest description{};  ///< what manifests of all steps say
};

/// The checkpoints of a run: when they are due, on which level, and what became of them. With
/// train.checkpoint_local they go to a disk of the node, and some of them from there to the run's
/// folder, beside training. The submitting thread's.
class RunCheckpoints {
 public:
  /// What is given must outlive the object.
  RunCheckpoints(const CheckpointInputs& inputs, const tensor::ParameterSet& parameters,
                 const optim::Optimizer& optimizer);

  /// What the state comes of, after start(): manifests say it (train/metrics_history.hpp).
  [[nodiscard]] const nlohmann::json& runs() const { return description_.runs; }
  /// Tells the recorder, which outlives the object, what goes between memory and files. Null: none.
  void set_recorder(trace::Recorder* recorder);

  [[nodiscard]] storage::Engine& engine() { return engine_; }
  [[nodiscard]] checkpoint::Writer& writer() { return writer_; }

  /// The run goes on from this checkpoint, which may be another run's.
  void continue_from(const std::filesystem::path& checkpoint,
                     const io::CheckpointManifest& manifest);
  /// Training begins behind this step. Pre: nobody else writes to the run's folders. `lock`, of the
  /// first of them, outlives the object. `nodes`: those of train.checkpoint_local.
  void start(Index step, io::RunLock* lock = nullptr, checkpoint::NodeFolders nodes = {});

  /// Whether a checkpoint of the step is due by train.checkpoint_every, or was asked for.
  [[nodiscard]] bool is_due(Index step);
  /// What the updates of a step leave their sums in, nothing unless it is saved.
  [[nodiscard]] std::span<const std::unique_ptr<rt::Handle>> sums(rt::Session& session,
                                                                  bool is_due);
  /// A step has ended that took so long, before the take_ended() of it.
  void step_ended(Index step, double seconds);
  /// Adds what this rank knows to its note for the others.
  void add_to(ranks::StepNote& note) const;
  /// The notes of all ranks: the same on all.
  void see(std::span<const ranks::StepNote> notes);

  /// What a checkpoint is for.
  enum class Reason { kDue, kBest, kLast };

  /// Takes note of the loss of a validation. Whether it is the lowest.
  bool is_best(double validation_loss);
  [[nodiscard]] std::optional<double> best_validation_loss() const { return best_; }

  /// Begins one of a step, with the place in the data behind it, as checkpoint::Writer::begin();
  /// ends the round of states on disks. Where two are under way on a rank after its patience, it is
  /// left out on all, with a warning: but the last one of a run, and one that a signal asked for.
  void begin(Index step, Index samples_consumed, Reason reason);
  /// begin() once more, of the step of the last one, which storage has failed; in the run's folder,
  /// whatever comes first, and all of it written.
  void repeat(Index step, Index samples_consumed);
  /// The last that has ended since the last call; one that was left out where none has. Warns of
  /// one that was given up. Throws Error when this rank can no longer speak with the others. What
  /// decides of later checkpoints changes with see() and settle() only, so at the same place on all
  /// ranks.
  std::optional<StepMetrics::Checkpoint> take_ended();
  /// Where training is over: waits for those of confirmed steps, drops others, and takes note of
  /// them.
  void settle();

  /// Whether the newest, on any level, is of this step.
  [[nodiscard]] bool has(Index step) const { return newest_ == step; }
  /// With two levels, at the end of a run: waits until the checkpoint of the step, which has(), is
  /// in the run's folder. Returns "", or on rank 0 why it is not.
  std::string share(Index step);
  /// share() of the newest, if there is one.
  void share_newest();
  /// "the checkpoint of step 4 is intact", for messages.
  [[nodiscard]] std::string newest_text() const;
  /// Why the run ends without one of its last step.
  [[nodiscard]] std::string failure_text(Index step) const;
  /// The step of one with a parameter that is not finite.
  [[nodiscard]] std::optional<Index> bad_parameter() const { return bad_parameter_; }

 private:
  /// Whether one of the step need not be left out. All ranks are told the same.
  [[nodiscard]] bool has_room(Index step);
  void leave_out(Index step, bool is_best);
  [[nodiscard]] bool was_best(Index step);
  /// What the metrics are told where this one, if any, has ended.
  std::optional<StepMetrics::Checkpoint> told(std::optional<StepMetrics::Checkpoint> ended);
  void start_local();
  void begin_in(io::CheckpointStore& store, Index step, Index samples_consumed, bool mark_best,
                const checkpoint::StateFiles& taken);
  /// Sets aside, on both levels, also on a first one of before, what is later than what the run
  /// goes on from.
  void go_on_from(Index step);
  /// Which files of states on disks checkpoints take as they are, on each level.
  void agree_on_taken_files();
  [[nodiscard]] bool is_local(const checkpoint::Outcome& outcome) const;
  /// Asks for a copy of what was committed, if it is to have one.
  void request_copy(const checkpoint::Outcome& outcome);
  /// Asks for copies of what the run has on its first level alone.
  void request_missing_copies(Index step);
  /// What follows from the ends of checkpoints up to this one. Whether one of them is there.
  bool draw_consequences(Index ended);

  const config::TrainConfig& config_;
  RunStates& states_;
  ranks::Exchange* exchange_;
  std::filesystem::path out_;
  bool writes_;
  std::function<std::unique_ptr<storage::Backend>()> make_storage_;
  io::CheckpointManifest description_;
  io::CheckpointStore store_;
  std::optional<io::CheckpointStore> local_;                 ///< the first level, with two
  checkpoint::NodeFolders nodes_;                            ///< that the first level is on
  checkpoint::StateFiles taken_;                             ///< by checkpoints in store_
  checkpoint::StateFiles taken_locally_;                     ///< by those in local_
  std::map<Index, io::CheckpointStore::Hold> to_be_copied_;  ///< begun there, by step
  std::optional<StorageTrace> storage_trace_;                ///< outlives the engine
  storage::Engine engine_;
  std::optional<StorageTrace> copies_trace_;  ///< outlives the copier
  std::unique_ptr<checkpoint::Copier>
      copier_;  ///< with two levels, of those who write to the first
  checkpoint::Writer writer_;
  std::optional<AutoInterval> interval_;    ///< with train.checkpoint_every=auto
  SlowedSteps slowed_;                      ///< by checkpoints
  std::deque<Index> under_way_;             ///< steps of those whose end this rank does not know
  Index regular_ = 0;                       ///< checkpoints that were due by themselves
  bool copy_is_due_ = false;                ///< of the step that is_due() was asked for
  bool was_asked_for_ = false;              ///< it, by a signal
  bool local_has_failed_ = false;           ///< with the last checkpoint there
  Index requests_ = 0;                      ///< for checkpoints, of all ranks
  Index honoured_ = 0;                      ///< of them
  Index begun_ = 0;                         ///< checkpoints
  Index behind_ = -1;                       ///< step of the last that others were left out for
  Index ended_ = 0;                         ///< checkpoints that this rank knows the end of
  Index seen_ = 0;                          ///< of them, those whose end has its consequences
  std::deque<checkpoint::Outcome> unseen_;  ///< the others
  checkpoint::Outcome committed_;           ///< the last
  checkpoint::Outcome given_up_;   ///< the last one that storage has failed, or that was left out
  std::optional<Index> left_out_;  ///< step of the last one that the metrics are not told of
  std::filesystem::path from_;     ///< that the run goes on from; "": none, or another run's
  Index newest_ = -1;              ///< step of the newest
  std::optional<double> best_;     ///< lowest validation loss so far
  std::optional<double> best_before_;  ///< the lowest before that
  std::optional<double> best_saved_;   ///< that of the best one in the folder
  std::optional<Index> bad_parameter_;
  bool is_over_ = false;  ///< training
};

}  // namespace dos::train
