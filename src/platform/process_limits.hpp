// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::platform {

/// Lets this process have as many files open as the system allows it. Throws Error, with the
/// limits, their values and the remedy, unless `threads` threads can be started and `files` files
/// opened beside those that there are: StarPU, PoCL and MPI end the program without a word of the
/// kind.
void expect_threads_and_files(Index threads, Index files);

}  // namespace dos::platform
