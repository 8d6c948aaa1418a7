// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <string>

#include "fuzz/target.hpp"
#include "scratch_directory.hpp"
#include "watch/page.hpp"
#include "watch/terminal.hpp"

namespace {

dos::Index characters_of(std::string_view text) {
  return std::ranges::count_if(
      text, [](char each) { return (static_cast<unsigned char>(each) & 0xC0U) != 0x80U; });
}

bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(text,
                             [](char each) { return static_cast<unsigned char>(each) < 0x20; });
}

}  // namespace

/// Any folder, run.json in the first line and metrics.jsonl in the others, is refused in one line,
/// or is shown in lines that fit the terminal and cannot move its cursor, and as a page whose
/// drawings have numbers.
void dos::test::fuzz(std::span<const std::byte> bytes) {
  static const ScratchDirectory scratch;
  const std::string_view text = text_of(bytes);
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::ofstream(scratch / "run.json") << text.substr(0, end);
  std::ofstream(scratch / "metrics.jsonl") << text.substr(std::min(end + 1, text.size()));
  watch::RunView run(scratch.path());
  run.look();
  for (const Index columns : {20, 49, 50, 80})
    for (const std::string& line : watch::picture(run, columns, false)) {
      if (characters_of(line) > columns) broken("lines fit the terminal");
      if (has_control_characters(line)) broken("text cannot move the cursor");
    }
  const std::string page = watch::to_page(run, "now", 2);
  const std::size_t drawings = page.find("<section>");
  if (drawings == std::string::npos) broken("a page has a place for drawings");
  for (const char* what : {"\"nan", "\"-nan", "\"inf", "\"-inf", ",nan", ",-nan", ",inf", ",-inf"})
    if (page.find(what, drawings) != std::string::npos) broken("drawings have numbers");
}
