// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "fit/fit.hpp"

namespace dos::fit {

/// What a run is told that a device had no room for after all, though the estimate says that it
/// fits: the options that take less there, with the need that they leave, the estimate of every
/// device by category, and how to go on. `scheduler` is the one that runs. Some lines, without a
/// newline at the end.
std::string memory_advice(const train::Run& run, const Room& room, const std::string& scheduler,
                          const std::filesystem::path& out);

}  // namespace dos::fit
