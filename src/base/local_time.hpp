// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

namespace dos {

/// What the clock on the wall shows at `time`, for fmt to write.
[[nodiscard]] std::tm local_time(std::time_t time = std::time(nullptr));

}  // namespace dos
