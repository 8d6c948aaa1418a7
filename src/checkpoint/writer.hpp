// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/attempt.hpp"

namespace dos::checkpoint {

/// The checkpoints of a run, as reads in its task graph: training goes on while they are written,
/// and only the next update of a subgroup waits for its own bytes, if at all (PartWriter). Storage
/// that fails costs the checkpoint that it meets, and a warning. All ranks make the same calls in
/// the same order. The submitting thread's, all of it.
class Writer {
 public:
  /// Checkpoints under way at a time: one is written while the one before is flushed and committed.
  static constexpr Index kMostUnderWay = 2;

  /// All that is given must outlive the object.
  Writer(const Surroundings& around, const tensor::ParameterSet& parameters,
         const optim::Optimizer& optimizer);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  /// As settle().
  ~Writer();

  /// Buffers of a checkpoint where all of a run may take so many bytes, at least the least.
  static Index buffers_within(double bytes);
  /// Memory that the checkpoints of a run take with so many buffers each, beside the engine's.
  static Index bytes(Index buffers) { return kMostUnderWay * buffers * kPieceBytes; }

  /// Whether begin() will not wait for an earlier one.
  [[nodiscard]] bool has_room();
  /// Waits for that, at most so long.
  [[nodiscard]] bool wait_for_room(std::chrono::duration<double> most);
  /// Saves what the tasks submitted so far make of the parameters and states, in `store`, which
  /// outlives the object. `manifest` lacks its files; `taken` are
  /// those of states that all ranks take as they are; `folders`: what the store's is on each rank,
  /// which the first of each writes to. Waits while there is no room, for ever while
  /// the oldest is of a step that is not confirmed, or its device hangs; says so after patience().
  /// Pre: steps ascend, or the last attempt at the step has ended.
  void begin(io::CheckpointStore& store, io::CheckpointManifest manifest, bool mark_best,
             const StateFiles& taken = {}, NodeFolders folders = {});
  /// For Optimizer::set_sums() before a step that begin() will save.
  [[nodiscard]] std::span<const std::unique_ptr<rt::Handle>> sums(rt::Session& session);
  /// The parameters are others now: sums that were left, and what files hold, do not count.
  void forget() {
    sums_.reset();
    kept_.forget();
  }
  /// To be called when the updates of a step were submitted, before begin().
  void updates_submitted();
  /// The results of the steps up to this one are known, and finite.
  void confirm(Index step);

  /// The step of the oldest that is under way, and Attempt::text() of it. Pre: !has_room().
  [[nodiscard]] Index oldest() const { return attempts_.front()->step(); }
  [[nodiscard]] std::string oldest_text() const { return attempts_.front()->text(); }
  /// Seconds of waiting for one that is under way, after which rank 0 warns of it.
  [[nodiscard]] std::chrono::duration<double> patience() const { return patience_; }
  void set_patience(std::chrono::duration<double> patience) { patience_ = patience; }
  /// Of an update that waits for a checkpoint's bytes, before that rank warns of it; it grows each
  /// time that a checkpoint was given up for that.
  void set_patience_of_updates(std::chrono::duration<double> patience) {
    around_.patience_of_updates = patience;
  }
  /// The step of the last begin(), if any.
  [[nodiscard]] std::optional<Index> begun() const { return begun_; }
  /// What has ended since the last call, in the order of steps.
  std::vector<Outcome> take_ended();
  /// Waits until all have ended, drops those of steps that were not confirmed.
  void settle();

 private:
  /// By which an update waits longer the next time, where a checkpoint was given up for it.
  static constexpr double kMorePatience = 4;

  void collect(bool waits);
  void wait_for_oldest() const;

  KeptFile kept_;
  Surroundings around_;
  const tensor::ParameterSet& parameters_;
  const optim::Optimizer& optimizer_;
  std::unique_ptr<StepSums> sums_;
  std::deque<std::unique_ptr<Attempt>> attempts_;
  /// Over, but what they have asked of the task graph has not been granted yet.
  std::vector<std::unique_ptr<Attempt>> lingering_;
  std::vector<Outcome> ended_;
  std::optional<Index> begun_;
  std::deque<double> room_s_;  ///< Outcome's, by attempt
  double waited_s_ = 0;        ///< by the submitting thread since the last begin()
  Index number_ = 0;
  std::chrono::duration<double> patience_{10};
};

}  // namespace dos::checkpoint
