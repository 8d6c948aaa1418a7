// SPDX-License-Identifier: Apache-2.0
#include "watch/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "watch/mean.hpp"
#include "watch/summary.hpp"

namespace dos::watch {
namespace {

constexpr std::array kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array kPlainBlocks{"_", ".", "-", "~", "=", "+", "*", "#"};

/// Narrower terminals have the names within the text.
constexpr Index kNameColumn = 12;
constexpr Index kLeastColumnsWithNames = 50;

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Characters of a text in UTF-8.
Index length_of(std::string_view text) {
  return std::ranges::count_if(text, [](char each) { return !continues_character(each); });
}

/// The first `count` characters.
std::string_view beginning(std::string_view text, Index count) {
  std::size_t end = 0;
  for (; end < text.size(); ++end)
    if (!continues_character(text[end]) && count-- == 0) break;
  return text.substr(0, end);
}

}  // namespace

std::vector<std::string> wrapped(std::string_view text, Index columns, std::string_view first,
                                 std::string_view indent) {
  std::vector<std::string> lines;
  std::string line(first);
  bool is_empty = true;  // but for its beginning
  const auto next_line = [&] {
    lines.push_back(line);
    line = indent;
    is_empty = true;
  };
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!is_empty && length_of(line) + 1 + length_of(word) > columns) next_line();
    if (!is_empty) line += ' ';
    for (;;) {
      const std::string_view part = beginning(word, std::max<Index>(1, columns - length_of(line)));
      line += part;
      is_empty = false;
      word.remove_prefix(part.size());
      if (word.empty()) break;
      next_line();
    }
  }
  lines.push_back(line);
  return lines;
}

std::string curve(std::span<const double> values, Index columns, bool plain) {
  const std::size_t parts = std::min(static_cast<std::size_t>(columns), values.size());
  std::vector<double> means;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t begin = values.size() * i / parts;
    means.push_back(mean_of(values.subspan(begin, values.size() * (i + 1) / parts - begin)));
  }
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double value : means) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const double scale = high > low ? static_cast<double>(kBlocks.size() - 1) / (high - low) : 0;
  std::string line;
  for (const double value : means) {
    const auto level =
        std::isfinite(value) ? static_cast<std::size_t>(std::lround((value - low) * scale)) : 0;
    line += std::isfinite(value) ? (plain ? kPlainBlocks : kBlocks).at(level) : " ";
  }
  return line;
}

std::vector<std::string> picture(const RunView& run, Index columns, bool plain) {
  require(columns >= kLeastColumns, "a width that has been checked");
  std::vector<std::string> lines = wrapped(title_of(run), columns, "", "  ");
  const Index names = columns >= kLeastColumnsWithNames ? kNameColumn : 0;
  const std::string margin(static_cast<std::size_t>(names), ' ');
  for (const Row& row : summarise(run)) {
    std::vector<std::string> more;
    if (row.text.empty())
      more = {margin + curve(row.curve, columns - names, plain)};
    else if (names > 0)
      more = wrapped(row.text, columns, fmt::format("{:<{}}", row.name, names), margin);
    else
      more = wrapped(row.name + " " + row.text, columns, "", "  ");
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

}  // namespace dos::watch
