// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::rt {

/// What StarPU's record of a handle takes of host memory, and what is left over of the last page of
/// the handle's buffer, at most.
Index handle_bytes();

/// What a pending task takes of host memory, at most: StarPU's records of it and of its places in
/// the queues of its buffers, and what it is given. Measured with StarPU 1.3.10: 1.5 KB with two
/// buffers to 3.7 KB with eight.
constexpr Index task_bytes(Index buffers, Index given) {
  constexpr Index kRecord = 1536;
  constexpr Index kPlace = 512;
  return kRecord + buffers * kPlace + given;
}

}  // namespace dos::rt
