// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::test {

/// The largest power of two, 256 at most, that the addresses of all matrices and rows, in bytes,
/// are multiples of that products on the host (cuda_device_on_host.cpp) were given since the last
/// call.
Index take_alignment_of_products();

}  // namespace dos::test
