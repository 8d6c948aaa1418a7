// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_folders.hpp"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace dos::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAsideMark = ".after-";

}  // namespace

std::string step_name(Index step) {
  return fmt::format("{}{:08}", kStepPrefix, step);
}

std::optional<Index> parse_number(std::string_view digits) {
  Index number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc{} || stop != end || number < 0) return std::nullopt;
  return number;
}

std::optional<Index> step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::optional<Index> step = parse_number(name.substr(kStepPrefix.size()));
  return step && step_name(*step) == name ? step : std::nullopt;
}

std::string name_of(const AsideName& aside) {
  const std::string name = fmt::format("{}{}{}", step_name(aside.step), kAsideMark, aside.after);
  return aside.number == 1 ? name : fmt::format("{}-{}", name, aside.number);
}

std::optional<AsideName> parse_aside(std::string_view name) {
  const std::size_t mark = name.find(kAsideMark);
  if (mark == name.npos) return std::nullopt;
  const std::string_view place = name.substr(mark + kAsideMark.size());
  const std::size_t dash = place.find('-');
  const std::optional<Index> step = step_of(name.substr(0, mark));
  const std::optional<Index> after = parse_number(place.substr(0, dash));
  const std::optional<Index> number =
      dash == place.npos ? std::optional<Index>(1) : parse_number(place.substr(dash + 1));
  if (!step || !after || !number) return std::nullopt;
  const AsideName aside{.step = *step, .after = *after, .number = *number};
  return name_of(aside) == name ? std::optional(aside) : std::nullopt;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

}  // namespace dos::io
