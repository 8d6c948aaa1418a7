// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace dos {

/// Throws Error "FILE:LINE: ..." for a TOML text with a dotted key of more parts than any file of
/// this project has: each part is a table inside the one before it, and a parser that reads or
/// frees them one inside the other has no stack for 100,000. (Arrays and tables in braces toml++
/// bounds itself.)
void expect_shallow_toml(std::string_view text, const std::string& file);

}  // namespace dos
