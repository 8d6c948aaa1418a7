// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos::rt {

/// While it lives StarPU's workers sleep, where they would look for tasks all the time: their cores
/// are free for threads of the program. Pre: StarPU is initialised, and nobody waits for a task
/// meanwhile. Objects may lie inside each other.
class PausedWorkers {
 public:
  PausedWorkers();
  PausedWorkers(const PausedWorkers&) = delete;
  PausedWorkers& operator=(const PausedWorkers&) = delete;
  ~PausedWorkers();
};

}  // namespace dos::rt
