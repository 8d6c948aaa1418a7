// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include <vector>

#include "base/types.hpp"

namespace dos::sched_starpu {

/// Streamed states of one GPU on their way home. Until they are there, their memory is no other's:
/// StarPU would make room by writing something else back, while a worker waits. Times are seconds
/// of one clock that does not run backwards.
///
/// Buffers are asked for until they are home, late, or forgotten: by take_arrived() alone, which is
/// for times at which an update waits, as the program keeps them registered until then.
class Returns {
 public:
  /// Copies of these buffers to their homes have started, and take `seconds` once those before them
  /// are there; after `patience` times as long they count as home whatever became of them.
  void add(const std::vector<starpu_data_handle_t>& buffers, double now, double seconds,
           double patience);
  /// How many buffers have come home since this was asked last. Neither locks nor waits.
  Index take_arrived(double now);
  /// All are of no more interest. Returns how many buffers there were.
  Index forget();

 private:
  struct Return {
    starpu_data_handle_t buffer;
    double latest;
  };

  std::vector<Return> returns_;
  double expected_by_ = 0;  ///< the last of them
};

}  // namespace dos::sched_starpu
