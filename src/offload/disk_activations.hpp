// SPDX-License-Identifier: Apache-2.0
#pragma once

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
#include "rt/access.hpp"
#include "storage/engine.hpp"
#include "tensor/activation_store.hpp"

namespace dos::offload {

/// Activations on disks between forward and backward. All is ordered by accesses to the buffers:
///
///   store()  read access   the buffer is written to its slot
///   load()   write access  the slot is read into the buffer
///            read access   on the slot's device, which has it copied before a task asks for it
///
/// so that nothing waits but who needs a buffer of the same ring, which bounds the memory. Slots
/// have their places for the whole run, evenly on the disks as far as their sizes allow; a disk has
/// one file, without a name: it goes with the process.
///
/// What cannot be written stays in memory until it is loaded, says so once, and ends is_usable().
/// All slots may be so at once, as a step is submitted before its first write fails: beyond
/// `spare` bytes, what the run leaves of host memory, they are lost. What cannot be read, or is not
/// what was written, is lost: then fault() says so, and the buffer holds numbers that are none, so
/// that nothing is taken for a result.
class DiskActivations final : public tensor::ActivationStore {
 public:
  /// `spare`: nullopt: nobody knows, and the system may refuse.
  explicit DiskActivations(std::span<const DiskPlace> disks,
                           std::unique_ptr<storage::Backend> backend = storage::make_backend(),
                           std::optional<Index> spare = std::nullopt);
  /// Waits until nothing is under way. Pre: the tasks submitted so far run.
  ~DiskActivations();

  Index add(Index bytes, int node) override;
  /// Throws Error as expect_room_for_activations(), or naming the folder and the cause.
  void reserve() override;
  [[nodiscard]] bool is_usable() const override;
  void store(Index slot, const rt::Handle& buffer) override;
  void load(Index slot, const rt::Handle& buffer) override;

  /// Waits until nothing is under way. Pre: the tasks submitted so far run.
  void settle();
  /// Why activations are lost: path and cause; "": they are not. Any thread.
  [[nodiscard]] std::string fault() const;
  /// So far. Any thread.
  [[nodiscard]] DiskTraffic traffic() const;
  /// Tells of all transfers; outlives the object. Null: nobody.
  void observe(storage::Observer* observer) { engine_.observe(observer); }
  /// What the step is called to observers.
  void set_step(Index step) { step_ = step; }

 private:
  struct Slot;
  struct Visit;
  struct Event {
    Visit* visit;
    bool is_transfer;  ///< else its access was granted
    std::string fault;
  };

  [[nodiscard]] std::size_t disk_for(Index bytes) const;
  void request(Slot& slot, const rt::Handle& buffer, bool stores);
  void post(Event event);

  // On the thread:
  void run();
  void begin(Visit& visit);
  void end(Visit& visit, const std::string& fault);
  void written(const Visit& visit, const std::string& fault);
  [[nodiscard]] bool rescue(const Visit& visit);
  void read(const Visit& visit, const std::string& fault);
  void lose(const Visit& visit, const std::string& why);
  void finish(Visit& visit);
  [[nodiscard]] storage::Label label_of(const Visit& visit) const;

  std::vector<DiskPlace> disks_;
  const std::optional<Index> spare_;
  Index rescued_ = 0;  ///< bytes; the thread's
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Index> sizes_;  ///< of what each disk gets
  std::vector<storage::DirectFile> files_;
  Index step_ = 0;

  mutable std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::deque<Event> events_;
  Index visits_ = 0;  ///< that are not over
  bool is_ending_ = false;
  bool is_usable_ = true;
  std::string fault_;
  DiskTraffic traffic_;

  storage::Engine engine_;
  std::thread thread_;
};

}  // namespace dos::offload
