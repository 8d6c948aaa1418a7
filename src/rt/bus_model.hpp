// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace dos::rt {

/// Sees to it that StarPU, when it starts, can read what it has measured of this host's links. What
/// a process that was killed has left half-written would end the program: it is deleted, with a
/// warning. Throws Error where that is impossible. `measures` says that StarPU measures anew.
/// Returns whether it will measure the links, as told or because there are no measurements.
bool mend_bus(bool measures);

/// The same of the files "<stem>.config", "<stem>.affinity" and so on.
bool mend_bus_files(const std::filesystem::path& stem, bool measures);

}  // namespace dos::rt
