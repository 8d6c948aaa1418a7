// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/worker_clock.hpp"

#include <algorithm>

namespace dos::sched_starpu {

WorkerTimes& WorkerTimes::operator+=(const WorkerTimes& other) {
  running += other.running;
  data += other.data;
  window += other.window;
  nothing += other.nothing;
  return *this;
}

void WorkerClock::add(units::Seconds& what, double now_us) {
  if (since_us_ >= 0) what += units::Seconds(std::max(0.0, now_us - since_us_) * 1e-6);
  since_us_ = now_us;
}

void WorkerClock::refused(double now_us, bool window_is_full) {
  if (since_us_ < 0 || running_ > 0 || taken_ > 0) return;
  add(window_is_full ? times_.window : times_.nothing, now_us);
}

void WorkerClock::took(double now_us) {
  if (running_ == 0) add(taken_ > 0 ? times_.data : times_.nothing, now_us);
  ++taken_;
}

void WorkerClock::started(double now_us) {
  if (running_ == 0) add(times_.data, now_us);
  taken_ = std::max<Index>(0, taken_ - 1);
  // StarPU does not tell the end of a task of its own.
  running_ = overlaps_ ? running_ + 1 : 1;
}

void WorkerClock::ended(double now_us) {
  if (running_ > 0) add(times_.running, now_us);
  running_ = std::max<Index>(0, running_ - 1);
}

}  // namespace dos::sched_starpu
