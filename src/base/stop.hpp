// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <stop_token>

namespace dos {

/// Sleeps for `period`, on a thread that may be asked to end (std::jthread). False as soon as it
/// is.
[[nodiscard]] bool sleep_unless_stopped(const std::stop_token& stop,
                                        std::chrono::duration<double> period);

}  // namespace dos
