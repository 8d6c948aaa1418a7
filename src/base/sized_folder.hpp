// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/types.hpp"

namespace dos {

/// A folder on a disk, and how much of it may be taken.
struct SizedFolder {
  std::filesystem::path folder;
  std::optional<Index> bytes{};          ///< nullopt: nothing is said
  std::optional<std::string> no_size{};  ///< what stands in the place of a size and is none
};

/// "FOLDER" or "FOLDER:SIZE", sizes as parse_bytes() takes them. A text that is there is a folder,
/// whatever its name has.
SizedFolder parse_sized_folder(const std::string& text);

}  // namespace dos
