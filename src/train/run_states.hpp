// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/state_files.hpp"
#include "io/checkpoint_manifest.hpp"
#include "offload/away_states.hpp"
#include "offload/disk_activations.hpp"
#include "ranks/exchange.hpp"
#include "train/run.hpp"
#include "train/storage_trace.hpp"

namespace dos::train {

/// Throws Error, as offload::share_regions(), where the disks have no room for the states that a
/// run has there, with so many workers that update; returns the bytes of their files.
Index expect_room_on_disks(const Run& run, Index workers);

/// What a run has away from host memory: the optimizer's states on disks and devices, and moved
/// activations, if there are any. The submitting thread's.
class RunStates {
 public:
  /// All in memory.
  RunStates() = default;
  /// `run` outlives the object, and so does the session. Throws Error as offload::AwayStates.
  RunStates(rt::Session& session, const Run& run,
            const std::function<std::unique_ptr<storage::Backend>()>& storage);

  /// Null: all states are in memory.
  [[nodiscard]] tensor::StateHomes* homes() const { return away_.get(); }
  /// Which states are there, for those who save them; null: all are in memory.
  [[nodiscard]] offload::AwayStates* away() const { return away_.get(); }
  /// For activations that are moved; null: none are.
  [[nodiscard]] tensor::ActivationStore* activations() const { return activations_.get(); }
  /// Subgroups whose states are on disks, in the order of updates.
  [[nodiscard]] std::vector<Index> on_disks() const;
  /// Those whose states are away, and those whose FP32 parameters are, too, likewise.
  [[nodiscard]] std::vector<Index> states_away() const;
  [[nodiscard]] std::vector<Index> parameters_away() const;
  /// The files of states that checkpoints in these folders, which are there or will be, can take,
  /// or copy, by folder: those of all ranks, where each has some that it can give away. Says which
  /// are not taken as they are, and why.
  [[nodiscard]] std::vector<checkpoint::StateFiles> files_for(
      std::span<const std::filesystem::path> folders, ranks::Exchange* exchange) const;

  /// Takes files of a checkpoint, which are read and checked, as the states that subgroups have,
  /// without a copy: those on a disk of the run that have its form. Returns the subgroups, which
  /// have lost what they had of an earlier checkpoint. Pre: no task has used a state yet. Throws
  /// Error naming file and tensor where one is damaged; then none is taken.
  [[nodiscard]] std::set<Index> take_files(storage::Engine& engine,
                                           const std::filesystem::path& folder,
                                           const io::CheckpointManifest& manifest) const;

  /// Calls f(is_wanted) until is_wanted(subgroup) was true of every subgroup once: first of those
  /// that are not among `away`, then of some of these at a time, whose buffers host accesses may
  /// overwrite within f(). What f() throws leaves the latter as they were.
  template <class F>
  void in_turn(const std::vector<Index>& away, F&& f) const {
    const std::set<Index> all(away.begin(), away.end());
    f([&](Index subgroup) { return !all.contains(subgroup); });
    for (std::span<const Index> rest = away; !rest.empty();) {
      const auto some = rest.first(std::min(rest.size(), static_cast<std::size_t>(away_->slots())));
      rest = rest.subspan(some.size());
      const std::set<Index> next(some.begin(), some.end());
      for (const Index subgroup : next) away_->open_on_host(subgroup);
      try {
        f([&](Index subgroup) { return next.contains(subgroup); });
      } catch (...) {
        // Others may be tried: they need the slots.
        away_->end_round();
        throw;
      }
      for (const Index subgroup : next) away_->store(subgroup);
      away_->end_round();
    }
  }
  /// Calls f(), within which tasks may be submitted that read, or, with `stores`, write FP32
  /// parameters.
  template <class F>
  void with_parameters(bool stores, F&& f) const {
    const std::vector<Index> opened = parameters_away();
    for (const Index subgroup : opened) away_->open_on_host(subgroup);
    f();
    if (stores)
      for (const Index subgroup : opened) away_->store(subgroup);
    if (!opened.empty()) away_->end_round();
  }

  /// Lets the host read the states that devices keep, and those on disks where `disks` says so.
  void open_for_reading(bool disks);
  /// As tensor::StateHomes.
  void end_round();
  /// Waits until nothing is under way. Pre: the tasks submitted so far run.
  void settle();

  /// Why states or activations are lost; "": they are not. Any thread.
  [[nodiscard]] std::string fault() const;
  /// Since the last call; nullopt without disks.
  std::optional<offload::DiskTraffic> take_traffic();

  void set_step(Index step);
  /// Tells the recorder, which outlives the object, of all transfers. Null: nobody.
  void set_recorder(trace::Recorder* recorder);

 private:
  /// Of states and of activations; they outlive the engines.
  std::optional<StorageTrace> trace_;
  std::optional<StorageTrace> activation_trace_;
  std::unique_ptr<offload::AwayStates> away_;
  std::unique_ptr<offload::DiskActivations> activations_;
  std::vector<std::vector<io::TensorSpec>> tensors_;  ///< of files, by subgroup
  bool has_parameters_ = false;                       ///< away
  offload::DiskTraffic taken_;
};

}  // namespace dos::train
