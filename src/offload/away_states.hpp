// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "offload/disk_place.hpp"
#include "offload/disk_traffic.hpp"
#include "offload/home_plan.hpp"
#include "offload/region_board.hpp"
#include "offload/region_files.hpp"
#include "offload/slot_queue.hpp"
#include "offload/state_form.hpp"
#include "offload/state_version.hpp"
#include "rt/access.hpp"
#include "rt/device.hpp"
#include "rt/host_buffer.hpp"
#include "shape/state_regions.hpp"
#include "storage/engine.hpp"
#include "tensor/state_homes.hpp"

namespace dos::offload {

/// States that live on disks or devices, FP32 parameters with them where the plan says so, and in
/// slots of host memory while tasks use them there. All is ordered by accesses to their handles.
/// A visit of what a disk has:
///
///   open()       write access   a slot is waited for, the states are read into it
///                (tasks, and accesses of others: the update, a checkpoint)
///   store()      read access    the slot is written to a disk
///   end_round()  write access   the slot is free
///
/// so that nothing but the update of a subgroup waits for its states, and slots bound the memory.
/// The states of a round are read before those of the next: each update of a round waits for
/// gradients only, so slots become free again, in whatever order its states are read (SlotQueue).
///
/// What a device keeps has memory there for itself, and needs no visit for an update. For the host
/// (open_on_host(), and the first open(), which gives zeros):
///
///   open         write access on the device   a slot is waited for; StarPU copies into it
///   end_round()  write access on the device   StarPU copies what is newer back; the slot is free
///
/// Files have no names: they go with the process, however that ends, but for those that keep() has
/// given away. States that cannot be read or written are lost: then fault() says so, and buffers
/// hold numbers that are none, so that nothing is taken for a result.
class AwayStates final : public tensor::StateHomes {
 public:
  /// What is given outlives the object, and so does the session. `forms`: by subgroup, of those
  /// that are on disk, buffers in the order of adopt(). `devices`: that HomePlan::Away numbers.
  /// Throws Error, naming folder and cause, where the disks are no folders that can be written, or
  /// have no room for the states.
  AwayStates(rt::Session& session, const shape::Layout& layout, HomePlan plan,
             std::span<const DiskPlace> disks, std::vector<StateForm> forms,
             std::span<const rt::Device> devices = {},
             std::unique_ptr<storage::Backend> backend = storage::make_backend());
  /// Pre: settle() was called after the last round.
  ~AwayStates();

  Home home_of(Index subgroup) override;
  void adopt(Index subgroup, const rt::Handle& buffer) override;
  void open(Index subgroup, const rt::Handle* last) override;
  void store(Index subgroup) override;
  void end_round() override;
  /// As open(), also for tasks and accesses on the host to what a device keeps, in the order of
  /// updates.
  void open_on_host(Index subgroup);

  /// Whether keep() may be called, and whose files can have names in `folder`, as one looks.
  [[nodiscard]] RegionFiles::Naming can_name_in(const std::filesystem::path& folder) const {
    return regions_ ? regions_->can_name_in(folder) : RegionFiles::Naming{.can = true};
  }
  /// What the tasks submitted so far make of a subgroup's buffers, without a copy: its file is
  /// given away, and the next states go to another. Does not wait for an access; where the subgroup
  /// has been stored never yet, it is, in this round. Pre: is_on_disk(), can_name_in() some folder;
  /// tasks that were submitted in this round are stored.
  [[nodiscard]] std::shared_ptr<StateVersion> keep(Index subgroup);

  /// Takes a file of a checkpoint as the buffers of a subgroup, without a copy, in the place of
  /// what it has: nobody writes to it, and the next states go to another. False where it is on none
  /// of the disks, or that has no room; then buffers may be zeros. Pre: it has the form, and these
  /// sums; all is settled, and no keep() was called.
  [[nodiscard]] bool take(Index subgroup, storage::DirectFile file,
                          std::vector<codelets::ContentSum> sums);
  /// Whether take() may be called.
  [[nodiscard]] bool can_take() const { return regions_ && regions_->can_give(); }

  [[nodiscard]] bool is_on_disk(Index subgroup) const;
  [[nodiscard]] const HomePlan& plan() const { return plan_; }
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
  struct Notice;
  struct Event {
    Visit* visit = nullptr;  ///< null: a round is complete
    Stage stage{};
    bool is_transfer = false;  ///< else all accesses of the stage were granted, but for
    bool is_notice = false;    ///< what says that the visit is due
    std::string fault{};       ///< of a transfer
  };
  /// A transfer that has moved its bytes, whenever that is looked at.
  struct Ended {
    Index disk = 0;
    Direction direction{};
    Index bytes = 0;
    double at = 0;
  };
  struct Access;
  /// keep() of what was stored so often.
  struct Wish {
    Subgroup* subgroup;
    Index stores;
    std::shared_ptr<StateVersion> version;
  };

  void create_files(std::span<const DiskPlace> disks, const shape::StateRegions& needed);
  void begin_visit(Subgroup& subgroup, const rt::Handle* last);
  void request(Visit& visit, Stage stage, int node, rt::Mode mode);
  void granted(Visit& visit, Stage stage) noexcept;
  void noticed(Visit& visit) noexcept;
  void transferred(Visit& visit, Stage stage, const Region& region, const std::string& fault);

  // On the thread:
  void run();
  void handle(const Event& event);
  void ask(Visit& visit);
  void fall_due(Visit& visit);
  void give_slots();
  void load(Visit& visit);
  void loaded(Visit& visit, const std::string& fault);
  void write(Visit& visit);
  void begin(const Region& region, Direction direction);
  void note_ended();
  void write_waiting();
  void written(Visit& visit, const std::string& fault);
  void close(Visit& visit);
  void end(Visit& visit);
  void lose(Subgroup& subgroup, const std::string& fault);
  void grant(const Wish& wish);
  static void end_accesses(const Visit& visit, Stage stage);
  [[nodiscard]] std::span<std::byte> memory_of(const Visit& visit) const;
  [[nodiscard]] static storage::Label label_of(const Visit& visit);
  [[nodiscard]] static double now();

  rt::Session& session_;
  const shape::Layout& layout_;
  const HomePlan plan_;
  std::vector<rt::HostBuffer> slots_;
  std::vector<std::unique_ptr<Subgroup>> states_;  ///< by subgroup; null: in host memory
  // The submitting thread's:
  std::vector<Visit*> open_;  ///< of this round
  Index round_ = 0;
  Index step_ = 0;
  // The thread's:
  std::optional<RegionBoard> board_;
  std::optional<RegionFiles> regions_;
  std::vector<Wish> wishes_;     ///< for what is not stored yet
  std::vector<Visit*> waiting_;  ///< to be written: all regions of their size are in use

  mutable std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::vector<Ended> ended_;     ///< that the board does not know yet
  std::deque<Wish> new_wishes_;  ///< come before events: of later stores are some of these
  SlotQueue<Visit> queue_;
  Index visits_ = 0;  ///< that are not over
  bool is_ending_ = false;
  std::string fault_;
  DiskTraffic traffic_;

  storage::Engine engine_;
  std::thread thread_;
};

}  // namespace dos::offload
