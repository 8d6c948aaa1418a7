// SPDX-License-Identifier: Apache-2.0
#include "base/toml_depth.hpp"

#include <algorithm>
#include <cstddef>

#include "base/error.hpp"
#include "base/types.hpp"

namespace dos {
namespace {

constexpr Index kMostParts = 64;

/// Bytes of the string in quotes that `text` begins with, up to the end of the line or text where
/// nothing closes it.
std::size_t length_of_string(std::string_view text) {
  const char quote = text.front();
  const bool escapes = quote == '"';
  const std::string_view whole = text.substr(0, 3);
  const bool has_lines = whole == R"(""")" || whole == "'''";
  const std::string_view end = has_lines ? whole : text.substr(0, 1);
  for (std::size_t i = end.size(); i < text.size(); ++i) {
    if (!has_lines && text[i] == '\n') return i;
    if (escapes && text[i] == '\\')
      ++i;
    else if (text.substr(i).starts_with(end))
      return i + end.size();
  }
  return text.size();
}

}  // namespace

void expect_shallow_toml(std::string_view text, const std::string& file) {
  Index dots = 0;
  Index line = 1;
  while (!text.empty()) {
    const char first = text.front();
    std::size_t length = 1;
    if (first == '#')
      length = std::min(text.find('\n'), text.size());
    else if (first == '"' || first == '\'')
      length = length_of_string(text);
    else if (first == '.')
      ++dots;
    else if (first == '=' || first == ',' || first == '\n')
      dots = 0;
    expect(dots < kMostParts, "{}:{}: a key of more than {} parts, which no such file has", file,
           line, kMostParts);
    line += std::ranges::count(text.substr(0, length), '\n');
    text.remove_prefix(length);
  }
}

}  // namespace dos
