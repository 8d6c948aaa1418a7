// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include "rt/mode.hpp"

namespace dos::rt {

constexpr starpu_data_access_mode to_starpu(Mode mode) {
  switch (mode) {
    case Mode::kRead:
      return STARPU_R;
    case Mode::kWrite:
      return STARPU_W;
    case Mode::kReadWrite:
      return STARPU_RW;
    case Mode::kScratch:
      return STARPU_SCRATCH;
  }
  return STARPU_NONE;
}

}  // namespace dos::rt
