// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace dos::rt {

/// The text of a file that StarPU keeps; empty when it cannot be opened. Waits, as StarPU does, for
/// a process that writes it.
std::string read_locked(const std::filesystem::path& file);

}  // namespace dos::rt
