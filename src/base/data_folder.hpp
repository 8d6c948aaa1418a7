// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace dos {

/// Where the files lie that programs read beside their own input, "machines" say, the folder of the
/// machine files: `../share/deep-optimizer-states`, seen from the folder of this program. A prefix
/// that programs are installed into has that folder, wherever it was moved to; a build folder has
/// one that leads to the sources. Absolute, without links where it exists. Throws Error when the
/// system does not say where this program lies.
std::filesystem::path data_folder();

/// The same for a program at `executable`.
std::filesystem::path data_folder_of(const std::filesystem::path& executable);

}  // namespace dos
