// SPDX-License-Identifier: Apache-2.0
#include "data/token_shards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/types.hpp"

namespace dos::data {
namespace {

std::filesystem::path shard(std::filesystem::path stem, Index number) {
  stem += fmt::format("_{:06}.bin", number);
  return stem;
}

/// Of a file "STEM_NNNNNN.bin".
std::optional<Index> number_of(std::string_view name, std::string_view stem) {
  constexpr std::string_view kEnd = ".bin";
  constexpr std::size_t kDigits = 6;
  if (name.size() != stem.size() + 1 + kDigits + kEnd.size() || !name.starts_with(stem) ||
      !name.ends_with(kEnd) || name[stem.size()] != '_')
    return std::nullopt;
  const std::string_view digits = name.substr(stem.size() + 1, kDigits);
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  Index number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace

std::vector<std::filesystem::path> find_shards(const std::filesystem::path& stem) {
  const std::string name = stem.filename().string();
  const auto folder = stem.has_parent_path() ? stem.parent_path() : std::filesystem::path(".");
  std::vector<Index> numbers;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; entry != end;
       entry.increment(ignored))
    if (const auto number = number_of(entry->path().filename().string(), name))
      numbers.push_back(*number);
  std::ranges::sort(numbers);
  std::vector<std::filesystem::path> shards;
  for (const Index number : numbers) {
    const Index wanted = numbers.front() + std::ssize(shards);
    expect(number == wanted, "{}: missing, but {} is there: copy all files of the corpus",
           shard(stem, wanted).string(), shard(stem, number).string());
    shards.push_back(shard(stem, number));
  }
  return shards;
}

}  // namespace dos::data
