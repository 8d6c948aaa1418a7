// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>

#include "sched_starpu/worker_place.hpp"

namespace dos::sched_starpu {

/// What the updates of one GPU hold of its memory: streamed ones from the start of their prefetch
/// until their states are back in host memory, residents while they wait for a gradient and run.
/// Times are seconds of any clock that does not run backwards.
class GpuWindow {
 public:
  struct Limits {
    Index window = 1;  ///< streamed updates that are prefetched or run at once
    Index slots = 1;  ///< streamed updates whose states fit in memory, also those on their way back
    Index beside = 1;     ///< of these slots, those that backward leaves free
    Index buffers = 1;    ///< that the states of one are in, each with its way back
    Index spare = 0;      ///< buffers that fit beside the slots
    Index arrivals = 1;   ///< residents to be that are prefetched or run at once
    Index residents = 1;  ///< residents that wait for their gradients or run at once
    /// Parameters of the largest update that there is room for beside residents.
    Index largest = std::numeric_limits<Index>::max();
  };

  /// Whether one more may be prefetched. What is on its way back delays it even where none is at
  /// work: where no memory is free StarPU would write back what others use, while a worker waits.
  [[nodiscard]] bool has_room(Stay stay, const Limits& limits) const {
    if (stay == Stay::kResident) return residents_ < limits.residents;
    if (stay == Stay::kArrives) return arriving_ < limits.arrivals;
    const Index room = std::max<Index>(1, limits.slots) * limits.buffers + limits.spare;
    return streamed_ < std::max<Index>(1, limits.window) &&
           (streamed_ + 1) * limits.buffers + returning_ <= room;
  }
  /// `seconds`: what is expected of it, once it is its turn.
  void enter(Stay stay, double now, double seconds) {
    if (at_work() == 0) {
      working_since_ = busy_since_ = now;
      expected_ = 0;
    }
    expected_ += seconds;
    if (stay != Stay::kResident && travelling() == 0) travelling_since_ = now;
    ++count(stay);
  }
  void leave(Stay stay, double now) {
    working_since_ = now;
    if (stay != Stay::kResident) travelling_since_ = now;
    --count(stay);
  }
  /// So many buffers of one start their way back.
  void send_back(Index buffers) { returning_ += buffers; }
  /// So many are back.
  void returned(Index buffers) { returning_ -= buffers; }

  /// At work: prefetched or running.
  [[nodiscard]] Index at_work() const { return travelling() + residents_; }
  [[nodiscard]] Index streamed() const { return streamed_; }
  /// Of them, those whose states come.
  [[nodiscard]] Index travelling() const { return streamed_ + arriving_; }
  /// Seconds since the one before ended, or the first entered: what the next has had of its time.
  [[nodiscard]] double working(double now) const {
    return at_work() > 0 ? now - working_since_ : 0;
  }
  /// How many times as long as was expected of all that it let in it is at work without a pause. A
  /// wrong expectation of a few shows little, since copies of several come at once.
  [[nodiscard]] double slowness(double now) const {
    return at_work() > 0 && expected_ > 0 ? (now - busy_since_) / expected_ : 0;
  }
  /// The same as working(), among those whose states come.
  [[nodiscard]] double travelling(double now) const {
    return travelling() > 0 ? now - travelling_since_ : 0;
  }
  [[nodiscard]] Index returning() const { return returning_; }

 private:
  Index& count(Stay stay) {
    return stay == Stay::kResident ? residents_ : stay == Stay::kArrives ? arriving_ : streamed_;
  }

  Index streamed_ = 0;
  Index arriving_ = 0;
  Index residents_ = 0;
  Index returning_ = 0;
  double working_since_ = 0;
  double busy_since_ = 0;
  double expected_ = 0;
  double travelling_since_ = 0;
};

}  // namespace dos::sched_starpu
