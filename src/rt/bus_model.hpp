// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace dos::rt {

/// Throws Error when StarPU has measurements of this host's links that would end the program when
/// it starts and reads them. Nothing when there are none. `measures` says that it measures anew.
/// Returns whether it will measure them, as told or because there are none.
bool expect_readable_bus(bool measures);

/// The same of the files "<stem>.config", "<stem>.affinity" and so on.
void expect_bus_files(const std::filesystem::path& stem, bool measures);

}  // namespace dos::rt
