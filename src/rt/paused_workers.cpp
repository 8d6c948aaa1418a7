// SPDX-License-Identifier: Apache-2.0
#include "rt/paused_workers.hpp"

#include <starpu.h>

namespace dos::rt {

PausedWorkers::PausedWorkers() {
  starpu_pause();
}

PausedWorkers::~PausedWorkers() {
  starpu_resume();
}

}  // namespace dos::rt
