// SPDX-License-Identifier: Apache-2.0
#include "simulated/simulated_disks.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "simulated/step_parts.hpp"

namespace dos::bench {
namespace {

/// Of StarPU's threads, which are the simulator's.
class Lock {
 public:
  explicit Lock(starpu_pthread_mutex_t& mutex) : mutex_(mutex) {
    starpu_pthread_mutex_lock(&mutex_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { starpu_pthread_mutex_unlock(&mutex_); }

 private:
  starpu_pthread_mutex_t& mutex_;
};

double now() {
  return starpu_timing_now() * kMicro;
}

}  // namespace

/// A subgroup that lives on disks.
struct SimulatedDisks::Stored {
  std::vector<starpu_data_handle_t> handles;
  Index bytes;
  Index turn;                               ///< place in the order of updates
  Visit* visit = nullptr;                   ///< that is open
  std::optional<offload::Region> region{};  ///< nullopt: all zeros
};

struct SimulatedDisks::Access {
  SimulatedDisks* owner;
  Visit* visit;
  Stage stage;
};

/// The time between open() and the end of the round's last access.
struct SimulatedDisks::Visit {
  Stored& stored;
  Index round;
  SimulatedDisks* owner;
  starpu_data_handle_t last;  ///< that its update waits for besides, until it is there
  bool is_closed = false;
  std::array<Access, 3> accesses{};  ///< by stage
  std::array<std::size_t, 3> granted{};
  Index slot = -1;
  offload::Region target{};  ///< of a write
};

SimulatedDisks::SimulatedDisks(const std::vector<DiskTask>& disks, Index slots)
    : slots_(slots), queue_(slots) {
  for (const DiskTask& rates : disks)
    disks_.push_back(std::make_unique<Disk>(Disk{.owner = this, .rates = rates}));
  starpu_pthread_mutex_init(&mutex_, nullptr);
  starpu_pthread_cond_init(&changed_, nullptr);
}

SimulatedDisks::~SimulatedDisks() {
  {
    const Lock lock(mutex_);
    is_ending_ = true;
    starpu_pthread_cond_broadcast(&changed_);
  }
  if (board_) {
    starpu_pthread_join(control_, nullptr);
    for (const auto& disk : disks_) starpu_pthread_join(disk->thread, nullptr);
  }
  starpu_pthread_cond_destroy(&changed_);
  starpu_pthread_mutex_destroy(&mutex_);
}

void SimulatedDisks::add(std::vector<starpu_data_handle_t> states, Index bytes) {
  const Index turn = std::ssize(stored_);
  stored_.push_back(
      std::make_unique<Stored>(Stored{.handles = std::move(states), .bytes = bytes, .turn = turn}));
}

void SimulatedDisks::start() {
  std::vector<Index> regions;
  for (const auto& disk : disks_) {
    const Index largest = (*std::ranges::max_element(stored_, {}, [](const auto& each) {
                            return each->bytes;
                          }))->bytes;
    regions.push_back(
        std::min(std::ssize(stored_) + slots_, static_cast<Index>(disk->rates.capacity) / largest));
  }
  board_.emplace(regions, std::ssize(stored_));
  starpu_pthread_create(&control_, nullptr, &run_control, this);
  for (const auto& disk : disks_)
    starpu_pthread_create(&disk->thread, nullptr, &run_disk, disk.get());
}

void SimulatedDisks::open(std::size_t place, starpu_data_handle_t last) {
  Stored& stored = *stored_[place];
  if (stored.visit != nullptr) return;
  stored.visit = new Visit{.stored = stored, .round = round_, .owner = this, .last = last};
  open_.push_back(stored.visit);
  {
    const Lock lock(mutex_);
    ++visits_;
    queue_.expect(round_);
  }
  request(*stored.visit, Stage::kOpen, STARPU_W);
  if (last != nullptr)
    require(starpu_data_acquire_on_node_cb(last, STARPU_ACQUIRE_NO_NODE, STARPU_R, &noticed,
                                           stored.visit) == 0,
            "a notice of a gradient");
}

void SimulatedDisks::store(std::size_t place) {
  request(*stored_[place]->visit, Stage::kStore, STARPU_R);
}

void SimulatedDisks::end_round() {
  for (Visit* visit : std::exchange(open_, {})) {
    visit->stored.visit = nullptr;
    request(*visit, Stage::kClose, STARPU_W);
  }
  ++round_;
  post({});
}

void SimulatedDisks::settle() {
  end_round();
  const Lock lock(mutex_);
  while (visits_ > 0) starpu_pthread_cond_wait(&changed_, &mutex_);
}

void SimulatedDisks::request(Visit& visit, Stage stage, starpu_data_access_mode mode) {
  Access& access = visit.accesses[static_cast<std::size_t>(stage)];
  access = {.owner = this, .visit = &visit, .stage = stage};
  // With the last grant of its end the visit is gone.
  const std::vector<starpu_data_handle_t>& handles = visit.stored.handles;
  for (starpu_data_handle_t handle : handles)
    require(starpu_data_acquire_on_node_cb(handle, STARPU_MAIN_RAM, mode, &granted, &access) == 0,
            "access to states");
}

void SimulatedDisks::granted(void* access) noexcept {
  const Access& granted = *static_cast<const Access*>(access);
  Visit& visit = *granted.visit;
  {
    const Lock lock(granted.owner->mutex_);
    if (++visit.granted[static_cast<std::size_t>(granted.stage)] < visit.stored.handles.size())
      return;
  }
  granted.owner->post({&visit, granted.stage, /*is_transfer=*/false});
}

void SimulatedDisks::noticed(void* visit) noexcept {
  Visit& due = *static_cast<Visit*>(visit);
  starpu_data_release_on_node(due.last, STARPU_ACQUIRE_NO_NODE);
  due.owner->post({&due, Stage::kOpen, /*is_transfer=*/false, /*is_notice=*/true});
}

void SimulatedDisks::post(const Event& event) {
  const Lock lock(mutex_);
  events_.push_back(event);
  starpu_pthread_cond_broadcast(&changed_);
}

void* SimulatedDisks::run_control(void* disks) {
  static_cast<SimulatedDisks*>(disks)->control();
  return nullptr;
}

void SimulatedDisks::control() {
  for (;;) {
    Event event{};
    {
      const Lock lock(mutex_);
      while (events_.empty() && !is_ending_) starpu_pthread_cond_wait(&changed_, &mutex_);
      if (events_.empty()) return;
      event = events_.front();
      events_.pop_front();
      if (event.visit == nullptr) queue_.end_round();
    }
    if (event.visit != nullptr) handle(event);
    give_slots();
  }
}

void SimulatedDisks::handle(const Event& event) {
  Visit& visit = *event.visit;
  if (event.is_notice) return fall_due(visit);
  switch (event.stage) {
    case Stage::kOpen:
      if (event.is_transfer) {
        board_->end(visit.stored.region->disk, offload::Direction::kRead, visit.stored.bytes,
                    now());
        return end_accesses(visit);
      } else {
        const Lock lock(mutex_);
        return queue_.ask(visit, visit.round, visit.stored.turn, visit.last == nullptr);
      }
    case Stage::kStore:
      return event.is_transfer ? written(visit) : transfer(visit, /*is_read=*/false);
    case Stage::kClose:
      return close(visit);
  }
}

void SimulatedDisks::give_slots() {
  for (;;) {
    std::optional<offload::SlotQueue<Visit>::Grant> grant;
    {
      const Lock lock(mutex_);
      grant = queue_.next();
    }
    if (!grant) return;
    grant->visit->slot = grant->slot;
    if (grant->visit->stored.region)
      transfer(*grant->visit, /*is_read=*/true);
    else
      end_accesses(*grant->visit);
  }
}

void SimulatedDisks::transfer(Visit& visit, bool is_read) {
  if (!is_read) {
    const std::optional<offload::Region> target = board_->take(visit.stored.turn);
    require(target.has_value(), "a region for each slot beside those of all states");
    visit.target = *target;
  }
  const Index disk = is_read ? visit.stored.region->disk : visit.target.disk;
  board_->begin(disk, is_read ? offload::Direction::kRead : offload::Direction::kWrite, now());
  const Lock lock(mutex_);
  disks_[static_cast<std::size_t>(disk)]->waiting.push_back({&visit, is_read});
  starpu_pthread_cond_broadcast(&changed_);
}

void* SimulatedDisks::run_disk(void* disk) {
  Disk& each = *static_cast<Disk*>(disk);
  each.owner->serve(each);
  return nullptr;
}

double SimulatedDisks::Disk::rate_of(const Transfer& next) const {
  const bool are_both = std::ranges::any_of(
      waiting, [&](const Transfer& each) { return each.is_read != next.is_read; });
  if (are_both && rates.both > 0) return rates.both;
  return next.is_read ? rates.read : rates.write;
}

void SimulatedDisks::serve(Disk& disk) {
  for (;;) {
    Transfer next{};
    double rate = 0;
    {
      const Lock lock(mutex_);
      while (disk.waiting.empty() && !is_ending_) starpu_pthread_cond_wait(&changed_, &mutex_);
      if (disk.waiting.empty()) return;
      next = disk.waiting.front();
      disk.waiting.pop_front();
      rate = disk.rate_of(next);
    }
    const auto bytes = static_cast<double>(next.visit->stored.bytes);
    const double seconds = disk.rates.latency + bytes / rate;
    starpu_sleep(static_cast<float>(seconds));
    transferred_ += bytes;
    busy_ += seconds;
    post({next.visit, next.is_read ? Stage::kOpen : Stage::kStore, /*is_transfer=*/true});
  }
}

void SimulatedDisks::written(Visit& visit) {
  Stored& stored = visit.stored;
  board_->end(visit.target.disk, offload::Direction::kWrite, stored.bytes, now());
  if (stored.region) board_->give_back(*stored.region);
  stored.region = visit.target;
  end_accesses(visit);
}

void SimulatedDisks::fall_due(Visit& visit) {
  visit.last = nullptr;
  if (visit.is_closed) return end(visit);
  const Lock lock(mutex_);
  queue_.fall_due(visit, visit.round, visit.stored.turn);
}

void SimulatedDisks::close(Visit& visit) {
  end_accesses(visit);
  visit.is_closed = true;
  {
    const Lock lock(mutex_);
    queue_.give_back(visit.slot);
  }
  if (visit.last == nullptr) end(visit);
}

void SimulatedDisks::end(Visit& visit) {
  const std::unique_ptr<Visit> over(&visit);
  const Lock lock(mutex_);
  --visits_;
  starpu_pthread_cond_broadcast(&changed_);
}

void SimulatedDisks::end_accesses(const Visit& visit) {
  for (starpu_data_handle_t handle : visit.stored.handles)
    starpu_data_release_on_node(handle, STARPU_MAIN_RAM);
}

}  // namespace dos::bench
