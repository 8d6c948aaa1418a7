// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace dos::io {

/// Whether `name` names a file of the folder that it is looked for in, and none elsewhere.
inline bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

}  // namespace dos::io
