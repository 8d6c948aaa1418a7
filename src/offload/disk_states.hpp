// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "offload/disk_place.hpp"
#include "offload/disk_traffic.hpp"
#include "offload/home_plan.hpp"
#include "offload/region_board.hpp"
#include "rt/access.hpp"
#include "rt/host_buffer.hpp"
#include "storage/engine.hpp"
#include "tensor/state_homes.hpp"

namespace dos::offload {

/// States that live on disks, FP32 parameters with them where the plan says so, and in slots of
/// host memory while tasks use them. All is ordered by accesses to their handles:
///
///   open()       write access   a slot is waited for, the states are read into it
///                (tasks, and accesses of others: the update, a checkpoint)
///   store()      read access    the slot is written to a disk
///   end_round()  write access   the slot is free
///
/// so that nothing but the update of a subgroup waits for its states, and slots bound the memory.
/// The states of a round are read before those of the next: each update of a round waits for
/// gradients only, so slots become free again.
///
/// Each disk has one file, which has no name any more once it is open: it goes with the process,
/// however that ends. States that cannot be read or written are lost: then fault() says so, and
/// buffers hold numbers that are none, so that nothing is taken for a result.
class DiskStates final : public tensor::StateHomes {
 public:
  /// What is given outlives the object, and so does the session. Throws Error, naming folder and
  /// cause, where the disks are no folders that can be written, or have no room for the states.
  DiskStates(rt::Session& session, const shape::Layout& layout, HomePlan plan,
             std::span<const DiskPlace> disks,
             std::unique_ptr<storage::Backend> backend = storage::make_backend());
  /// Pre: settle() was called after the last round.
  ~DiskStates();

  std::byte* lent_memory(Index subgroup) override;
  void adopt(Index subgroup, const rt::Handle& buffer) override;
  void open(Index subgroup) override;
  void store(Index subgroup) override;
  void end_round() override;

  /// Subgroups on disks, in the order of updates.
  [[nodiscard]] const std::vector<Index>& subgroups() const { return plan_.subgroups; }
  /// Rounds of that many subgroups do not wait for each other's slots.
  [[nodiscard]] Index slots() const { return plan_.slots; }
  /// Ends the round, and waits until all rounds are over. Pre: their tasks run.
  void settle();

  /// Why states are lost: path, subgroup and cause; "": they are not. Any thread.
  [[nodiscard]] std::string fault() const;
  /// So far. Any thread.
  [[nodiscard]] DiskTraffic traffic() const;
  /// Tells of all transfers; outlives the object. Null: nobody.
  void observe(storage::Observer* observer) { engine_.observe(observer); }
  /// What the step is called to observers, from the next open() on.
  void set_step(Index step) { step_ = step; }

 private:
  struct Visit;
  struct Subgroup;
  /// What a visit's accesses are for; and what its transfer has done.
  enum class Stage : std::uint8_t { kOpen, kStore, kClose };
  struct Event {
    Visit* visit;
    Stage stage;
    bool is_transfer;   ///< else all accesses of the stage were granted
    std::string fault;  ///< of a transfer
  };
  struct Access;

  void create_files(std::span<const DiskPlace> disks);
  void request(Visit& visit, Stage stage, rt::Mode mode);
  void granted(Visit& visit, Stage stage) noexcept;
  void post(Event event);

  // On the thread:
  void run();
  void handle(const Event& event);
  void give_slots();
  void load(Visit& visit);
  void loaded(Visit& visit, const std::string& fault);
  void write(Visit& visit);
  void written(Visit& visit, const std::string& fault);
  void close(Visit& visit);
  void lose(Subgroup& subgroup, const std::string& fault);
  static void end_accesses(const Visit& visit);
  [[nodiscard]] std::span<std::byte> memory_of(const Visit& visit) const;
  [[nodiscard]] static storage::Label label_of(const Visit& visit);
  [[nodiscard]] static double now();

  rt::Session& session_;
  const shape::Layout& layout_;
  const HomePlan plan_;
  std::vector<rt::HostBuffer> slots_;
  std::vector<std::string> folders_;  ///< by disk
  std::vector<storage::File> files_;
  std::vector<std::unique_ptr<Subgroup>> states_;  ///< by subgroup; null: at home in memory
  // The submitting thread's:
  std::vector<Visit*> open_;  ///< of this round
  Index round_ = 0;
  Index step_ = 0;
  // The thread's:
  std::optional<RegionBoard> board_;
  std::set<std::pair<std::pair<Index, Index>, Visit*>> waiting_;  ///< for slots, by round and turn
  std::vector<Index> free_slots_;

  mutable std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::multiset<Index> unread_;  ///< rounds of visits that have no slot yet
  Index visits_ = 0;             ///< that are not over
  bool is_ending_ = false;
  std::string fault_;
  DiskTraffic traffic_;

  storage::Engine engine_;
  std::thread thread_;
};

}  // namespace dos::offload
