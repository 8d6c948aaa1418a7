// SPDX-License-Identifier: Apache-2.0
#include "base/sized_folder.hpp"

#include <string_view>
#include <system_error>

#include "base/units.hpp"

namespace dos {

SizedFolder parse_sized_folder(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::error_code ignored;
  if (colon == std::string::npos || std::filesystem::exists(text, ignored)) return {.folder = text};
  SizedFolder result{.folder = text.substr(0, colon),
                     .bytes = parse_bytes(std::string_view(text).substr(colon + 1))};
  if (!result.bytes) result.no_size = text.substr(colon + 1);
  return result;
}

}  // namespace dos
