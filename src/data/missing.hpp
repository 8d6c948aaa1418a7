// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <system_error>

namespace dos::data {

/// Whether nothing exists at `path`. A path that cannot be looked at is not missing: opening it
/// tells why.
inline bool is_missing(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::status(path, ignored).type() == std::filesystem::file_type::not_found;
}

}  // namespace dos::data
