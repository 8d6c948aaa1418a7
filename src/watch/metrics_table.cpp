// SPDX-License-Identifier: Apache-2.0
#include "watch/metrics_table.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"

namespace dos::watch {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kPiece = std::size_t{1}
                               << 20;  ///< of a file, in bytes, and of a line at most

struct Line {
  Index step = 0;
  bool is_validation = false;
  std::map<std::string, double, std::less<>> numbers;
};

/// Nullopt for what no program of this project has written.
std::optional<Line> parse(std::string_view text) {
  const std::optional<nlohmann::json> json = try_parse_json_object(text);
  if (!json || !json->contains("step") || !json->at("step").is_number_integer())
    return std::nullopt;
  Line line{.step = json->at("step").get<Index>(),
            .is_validation = json->contains("val_loss"),
            .numbers = {}};
  if (line.step < 0 || !(line.is_validation || json->contains("loss"))) return std::nullopt;
  for (const auto& [name, value] : json->items()) {
    if (!value.is_number() && !value.is_null()) return std::nullopt;
    if (name != "step") line.numbers[name] = value.is_null() ? kNone : value.get<double>();
  }
  return line;
}

}  // namespace

void MetricsTable::forget() {
  offset_ = 0;
  number_ = 0;
  steps_.clear();
  columns_.clear();
  validations_.clear();
}

void MetricsTable::read() {
  const InputFile file(path_);
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0) fail_errno(path_.string(), errno);
  const std::pair<std::uint64_t, std::uint64_t> now{status.st_dev, status.st_ino};
  if (now != file_ || file.size() < offset_) forget();
  file_ = now;
  std::string text;
  for (std::string piece(kPiece, '\0');;) {
    const Index begin = offset_ + std::ssize(text);
    const Index count = file.read(begin, std::as_writable_bytes(std::span(piece)));
    text.append(piece, 0, static_cast<std::size_t>(count));
    std::size_t start = 0;
    for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
      take(std::string_view(text).substr(start, end - start));
      start = end + 1;
    }
    offset_ += static_cast<Index>(start);
    text.erase(0, start);
    if (count == 0) return;
    expect(text.size() <= kPiece, "{}:{}: not a line of metrics; remove or repair it",
           path_.string(), number_ + 1);
  }
}

void MetricsTable::take(std::string_view text) {
  ++number_;
  if (text.find_first_not_of(" \t\r") == std::string_view::npos) return;
  const std::optional<Line> line = parse(text);
  expect(line.has_value(), "{}:{}: not a line of metrics; remove or repair it", path_.string(),
         number_);
  if (line->is_validation) {
    validations_[line->step] = line->numbers.at("val_loss");
    return;
  }
  const std::size_t row = row_of(line->step);
  for (auto& [name, values] : columns_) values[row] = kNone;
  for (const auto& [name, value] : line->numbers) {
    std::vector<double>& values = columns_[name];
    values.resize(steps_.size(), kNone);
    values[row] = value;
  }
}

std::size_t MetricsTable::row_of(Index step) {
  const auto place = std::ranges::lower_bound(steps_, step);
  const auto row = place - steps_.begin();
  if (place == steps_.end() || *place != step) {
    steps_.insert(place, step);
    for (auto& [name, values] : columns_) values.insert(values.begin() + row, kNone);
  }
  return static_cast<std::size_t>(row);
}

std::span<const double> MetricsTable::column(std::string_view name) const {
  const auto found = columns_.find(name);
  return found == columns_.end() ? std::span<const double>() : found->second;
}

bool MetricsTable::has_failed_checkpoint(std::size_t row) const {
  const std::span<const double> committed = column("checkpoint_committed");
  return row < committed.size() && committed[row] == 0;
}

std::vector<std::string> MetricsTable::names_behind(std::string_view beginning) const {
  std::vector<std::string> names;
  for (const auto& [name, values] : columns_)
    if (name.starts_with(beginning)) names.push_back(name.substr(beginning.size()));
  return names;
}

}  // namespace dos::watch
