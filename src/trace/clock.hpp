// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <limits>

#include "rt/trace_sink.hpp"

namespace dos::trace {

using Microseconds = std::chrono::duration<double, std::micro>;

/// What is to be added to a time of the clock, in microseconds since its epoch, to have the time of
/// traces (rt::trace_clock_us()): of several readings of both the one with the least between them,
/// since a thread may lose its core in the middle.
template <class Clock>
double trace_offset_us() {
  constexpr int kReadings = 8;
  constexpr double kGoodUs = 1;
  double least = std::numeric_limits<double>::max();
  double offset = 0;
  for (int i = 0; i < kReadings && least > kGoodUs; ++i) {
    const double before = rt::trace_clock_us();
    const double now = Microseconds(Clock::now().time_since_epoch()).count();
    const double after = rt::trace_clock_us();
    if (after - before >= least) continue;
    least = after - before;
    offset = (before + after) / 2 - now;
  }
  return offset;
}

/// A part of time, on the clock of traces.
template <class TimePoint>
struct TraceInterval {
  TraceInterval(TimePoint start, TimePoint end)
      : start_us(trace_offset_us<typename TimePoint::clock>() +
                 Microseconds(start.time_since_epoch()).count()),
        end_us(start_us + Microseconds(end - start).count()) {}

  double start_us;
  double end_us;
};

}  // namespace dos::trace
