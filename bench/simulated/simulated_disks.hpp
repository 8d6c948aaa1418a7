// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "offload/region_board.hpp"
#include "offload/slot_queue.hpp"
#include "simulated/step_task.hpp"

namespace dos::bench {

/// Disks of a simulated node, and the states that live there: offload::AwayStates with its queue
/// for slots, its choice of disks and its accesses to handles, but with transfers that take time
/// and move nothing. A disk has one transfer at a time: `latency`, and its bytes at the rate of its
/// direction, or at that of both, if there is one, while the other direction waits.
class SimulatedDisks {
 public:
  /// `slots`: subgroups that have memory at the same time.
  SimulatedDisks(const std::vector<DiskTask>& disks, Index slots);
  SimulatedDisks(const SimulatedDisks&) = delete;
  SimulatedDisks& operator=(const SimulatedDisks&) = delete;
  ~SimulatedDisks();

  /// A subgroup's states live on disks, `bytes` of them. In the order of updates, before start().
  void add(std::vector<starpu_data_handle_t> states, Index bytes);
  void start();

  // As offload::AwayStates; `place`: in the order of add().
  void open(std::size_t place, starpu_data_handle_t last);
  void store(std::size_t place);
  void end_round();
  /// Ends the round, and waits until all rounds are over.
  void settle();

  /// Bytes read and written so far, and seconds that took, the mean of all disks.
  [[nodiscard]] double transferred() const { return transferred_; }
  [[nodiscard]] double busy() const { return busy_ / static_cast<double>(disks_.size()); }

 private:
  enum class Stage : std::uint8_t { kOpen, kStore, kClose };
  struct Visit;
  struct Stored;
  struct Access;
  struct Transfer {
    Visit* visit;
    bool is_read;
  };
  struct Event {
    Visit* visit = nullptr;  ///< null: a round is complete
    Stage stage{};
    bool is_transfer =
        false;  ///< that has ended; else all accesses of the stage were granted, but for
    bool is_notice = false;  ///< what says that the visit is due
  };
  struct Disk {
    SimulatedDisks* owner;
    DiskTask rates;
    std::deque<Transfer> waiting{};
    starpu_pthread_t thread{};

    /// While the others wait.
    [[nodiscard]] double rate_of(const Transfer& next) const;
  };

  static void* run_control(void* disks);
  static void* run_disk(void* disk);
  void serve(Disk& disk);
  void control();
  void handle(const Event& event);
  void request(Visit& visit, Stage stage, starpu_data_access_mode mode);
  static void granted(void* access) noexcept;
  static void noticed(void* visit) noexcept;
  void post(const Event& event);
  void give_slots();
  void transfer(Visit& visit, bool is_read);
  void written(Visit& visit);
  void fall_due(Visit& visit);
  void close(Visit& visit);
  void end(Visit& visit);
  static void end_accesses(const Visit& visit);

  Index slots_;
  std::vector<std::unique_ptr<Disk>> disks_;
  std::vector<std::unique_ptr<Stored>> stored_;
  std::optional<offload::RegionBoard> board_;
  offload::SlotQueue<Visit> queue_;
  std::vector<Visit*> open_;  ///< of this round
  Index round_ = 0;
  double transferred_ = 0;
  double busy_ = 0;

  starpu_pthread_mutex_t mutex_{};  ///< of what follows, and of what waits for disks and slots
  starpu_pthread_cond_t changed_{};
  std::deque<Event> events_;
  Index visits_ = 0;  ///< that are not over
  bool is_ending_ = false;
  starpu_pthread_t control_{};
};

}  // namespace dos::bench
