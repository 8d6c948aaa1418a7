// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::offload {

/// What was moved between host memory and disks.
struct DiskTraffic {
  Index read_bytes = 0;
  Index written_bytes = 0;
};

}  // namespace dos::offload
