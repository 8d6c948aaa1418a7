// SPDX-License-Identifier: Apache-2.0
#include "rt/history_format.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>
#include <vector>

#include "base/error.hpp"

namespace dos::rt {
namespace {

/// StarPU 1.4 has tables of so many types of devices, and looks a type up in them unchecked.
constexpr std::uint64_t kDeviceTypes = 8;

/// The lines of a model that are no comments, word by word.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  /// Goes to the next line, which must have this many words.
  void next(std::size_t words, const char* what) { next(words, words, what); }

  void next(std::size_t fewest, std::size_t most, const char* what) {
    if (!advance()) fail("it ends after line {}, where {} should be", number_, what);
    // StarPU takes what has no end of line for a fault, and the last number may be a part of one.
    expect(is_whole_, "line {}: it ends in the midst of a line", number_);
    expect(words_.size() >= fewest && words_.size() <= most,
           "line {}: {} words, where {} should be", number_, words_.size(), what);
  }

  void expect_end() {
    if (advance()) fail("line {}: more lines than it announces", number_);
  }

  [[nodiscard]] Index number() const { return number_; }
  [[nodiscard]] std::size_t words() const { return words_.size(); }

  [[nodiscard]] std::uint64_t natural(std::size_t place, int base = 10) const {
    const std::string_view word = words_[place];
    std::uint64_t value = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    expect(error == std::errc{} && stop == word.data() + word.size(),
           "line {}: '{}' is no whole number of at least 0", number_, shortened(word));
    return value;
  }

  [[nodiscard]] double real(std::size_t place) const {
    const std::string_view word = words_[place];
    double value = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    expect(error == std::errc{} && stop == word.data() + word.size(), "line {}: '{}' is no number",
           number_, shortened(word));
    return value;
  }

  void expect_finite(std::size_t place) const {
    expect(std::isfinite(real(place)), "line {}: '{}' is not finite", number_,
           shortened(words_[place]));
  }

  void expect_time(std::size_t place) const {
    const double value = real(place);
    expect(std::isfinite(value) && value >= 0, "line {}: '{}' is no finite number of at least 0",
           number_, shortened(words_[place]));
  }

 private:
  static std::string_view shortened(std::string_view word) { return word.substr(0, 20); }

  bool advance() {
    do {
      if (rest_.empty()) return false;
      const std::size_t end = rest_.find('\n');
      is_whole_ = end != std::string_view::npos;
      split(rest_.substr(0, end));
      rest_.remove_prefix(is_whole_ ? end + 1 : rest_.size());
      ++number_;
    } while (words_.empty() || words_.front().front() == '#');
    return true;
  }

  void split(std::string_view line) {
    constexpr const char* kBlanks = " \t\r";
    words_.clear();
    for (std::size_t start = 0;
         (start = line.find_first_not_of(kBlanks, start)) != std::string_view::npos;) {
      const std::size_t end = std::min(line.find_first_of(kBlanks, start), line.size());
      words_.push_back(line.substr(start, end - start));
      start = end;
    }
  }

  std::string_view rest_;
  std::vector<std::string_view> words_{};
  Index number_ = 0;
  bool is_whole_ = true;
};

std::uint64_t read_count(Lines& lines, const char* what) {
  lines.next(1, what);
  return lines.natural(0);
}

/// Codelets with a history have none: StarPU writes nan.
void read_regressions(Lines& lines) {
  lines.next(9, "the nine numbers of a linear regression");
  for (const std::size_t sum : {0U, 1U, 2U, 3U}) lines.expect_finite(sum);
  for (const std::size_t factor : {4U, 5U}) static_cast<void>(lines.real(factor));
  for (const std::size_t count : {6U, 7U, 8U}) static_cast<void>(lines.natural(count));
  lines.next(3, "the three numbers of a regression");
  for (const std::size_t factor : {0U, 1U, 2U}) static_cast<void>(lines.real(factor));
  lines.next(1, static_cast<std::size_t>(-1), "the number of coefficients");
  expect(lines.natural(0) == lines.words() - 1,
         "line {}: {} coefficients are announced, {} are there", lines.number(), lines.natural(0),
         lines.words() - 1);
  for (std::size_t i = 1; i < lines.words(); ++i) static_cast<void>(lines.real(i));
}

/// Footprint, bytes, floating-point operations (not by older versions), mean, deviation, sum, sum
/// of squares, number of measurements.
void read_entry(Lines& lines) {
  lines.next(7, 8, "an entry of seven or eight numbers");
  const std::size_t first_time = lines.words() - 5;
  static_cast<void>(lines.natural(0, 16));
  static_cast<void>(lines.natural(1));
  // StarPU writes nan when tasks of one size do not agree.
  if (first_time == 3 && !std::isnan(lines.real(2))) lines.expect_time(2);
  for (std::size_t time = first_time; time < first_time + 4; ++time) lines.expect_time(time);
  static_cast<void>(lines.natural(first_time + 4));
}

void read_device(Lines& lines) {
  const std::uint64_t type = read_count(lines, "the type of a device");
  expect(type < kDeviceTypes, "line {}: {} is no type of a device", lines.number(), type);
  static_cast<void>(read_count(lines, "the number of a device"));
  static_cast<void>(read_count(lines, "the number of cores"));
}

void read_combination(Lines& lines) {
  const std::uint64_t devices = read_count(lines, "the number of devices");
  for (std::uint64_t i = 0; i < devices; ++i) read_device(lines);
  const std::uint64_t implementations = read_count(lines, "the number of implementations");
  for (std::uint64_t i = 0; i < implementations; ++i) {
    const std::uint64_t entries = read_count(lines, "the number of entries");
    read_regressions(lines);
    for (std::uint64_t entry = 0; entry < entries; ++entry) read_entry(lines);
  }
}

}  // namespace

void expect_history_text(std::string_view text) {
  Lines lines(text);
  static_cast<void>(read_count(lines, "the version"));
  const std::uint64_t combinations = read_count(lines, "the number of combinations");
  for (std::uint64_t i = 0; i < combinations; ++i) read_combination(lines);
  lines.expect_end();
}

}  // namespace dos::rt
