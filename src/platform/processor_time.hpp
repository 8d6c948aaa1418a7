// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <istream>
#include <optional>

namespace dos::platform {

/// Seconds since the start of the machine, summed over its processors.
struct ProcessorTime {
  double busy = 0;
  double idle = 0;
  double stolen = 0;  ///< that the host of a virtual machine gave to others
};

/// Nothing where the kernel does not tell.
std::optional<ProcessorTime> processor_time();

/// The same from the text of /proc/stat, whose unit is 1/ticks seconds.
std::optional<ProcessorTime> read_processor_time(std::istream& stat, double ticks);

/// Seconds of all processors that this process has used.
double own_processor_seconds();

/// Seconds of a processor that a thread of this process has used. Pre: it was not joined.
double thread_processor_seconds(pthread_t thread);

}  // namespace dos::platform
