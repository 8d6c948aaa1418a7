// SPDX-License-Identifier: Apache-2.0
#include "train/metrics_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/log.hpp"

namespace dos::train {
namespace {

namespace fs = std::filesystem;

struct Line {
  Index step = 0;
  std::string text;
};

/// Lines in the order of the file.
struct History {
  std::vector<Line> whole;
  std::string damaged;
  Index damaged_lines = 0;
  Index first_damaged = 0;  ///< number of the line, from 1

  [[nodiscard]] Index first_step() const { return whole.empty() ? 0 : whole.front().step; }
  [[nodiscard]] Index last_step() const { return whole.empty() ? 0 : whole.back().step; }
};

/// nullopt for a line that is damaged or torn.
std::optional<Index> step_of(const std::string& line) {
  const auto json = try_parse_json_object(line);
  if (!json || !json->contains("step") || !json->at("step").is_number_integer())
    return std::nullopt;
  const auto step = json->at("step").get<Index>();
  return step >= 0 ? std::optional(step) : std::nullopt;
}

History read_history(const fs::path& path) {
  History history;
  std::istringstream lines(read_text(path));
  Index number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (const std::optional<Index> step = step_of(line)) {
      history.whole.push_back({*step, line});
      continue;
    }
    if (history.damaged_lines++ == 0) history.first_damaged = number;
    history.damaged += line + "\n";
  }
  return history;
}

/// Takes the lines after `step` out of `lines`.
std::vector<Line> cut_after(std::vector<Line>& lines, Index step) {
  const auto first =
      std::ranges::find_if(lines, [&](const Line& line) { return line.step > step; });
  std::vector<Line> cut(first, lines.end());
  lines.erase(first, lines.end());
  return cut;
}

std::string text_of(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) text += line.text + "\n";
  return text;
}

/// "metrics.branch-1.jsonl" beside "metrics.jsonl".
fs::path beside(const fs::path& path, const std::string& what) {
  return path.parent_path() /
         fmt::format("{}.{}{}", path.stem().string(), what, path.extension().string());
}

fs::path branch_path(const fs::path& path, Index number) {
  return beside(path, fmt::format("branch-{}", number));
}

/// The numbers of the branches that there are, ascending.
std::vector<Index> branch_numbers(const fs::path& path) {
  std::vector<Index> numbers;
  const std::string start = path.stem().string() + ".branch-";
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start)) continue;
    const Index number = std::strtoll(name.c_str() + start.size(), nullptr, 10);
    if (number > 0 && entry.path() == branch_path(path, number)) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

/// The newest branch that goes on where lines up to some step of the file end, and has `step`.
std::optional<fs::path> find_branch(const fs::path& path, Index reached, Index step) {
  const std::vector<Index> numbers = branch_numbers(path);
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    const History branch = read_history(branch_path(path, *number));
    if (!branch.whole.empty() && branch.first_step() <= reached + 1 && branch.last_step() >= step)
      return branch_path(path, *number);
  }
  return std::nullopt;
}

void keep_damaged(const fs::path& path, const History& history) {
  if (history.damaged_lines == 0) return;
  const fs::path kept = beside(path, "damaged");
  const std::string before = fs::exists(kept) ? read_text(kept) : "";
  write_durably(kept, before + history.damaged);
  log::warn(
      "{}: {} damaged or torn, the first is line {}: kept in {}", path.string(),
      history.damaged_lines == 1 ? "1 line is" : fmt::format("{} lines are", history.damaged_lines),
      history.first_damaged, kept.filename().string());
}

void keep_branch(const fs::path& path, const std::vector<Line>& branch) {
  if (branch.empty()) return;
  const std::vector<Index> numbers = branch_numbers(path);
  const fs::path kept = branch_path(path, numbers.empty() ? 1 : numbers.back() + 1);
  write_durably(kept, text_of(branch));
  log::info("{}: steps {} to {} of what was done before are kept in {}", path.string(),
            branch.front().step, branch.back().step, kept.filename().string());
}

/// Lines up to `step` of the branch in `file`, which keeps the others, in the places of the file's.
void return_to_branch(const fs::path& path, const fs::path& file, std::vector<Line>& lines,
                      Index step) {
  std::vector<Line> branch = read_history(file).whole;
  const std::vector<Line> later = cut_after(branch, step);
  log::info("{}: steps {} to {} come back from {}", path.string(), branch.front().step,
            branch.back().step, file.filename().string());
  keep_branch(path, cut_after(lines, branch.front().step - 1));
  lines.insert(lines.end(), branch.begin(), branch.end());
  write_durably(path, text_of(lines));
  if (later.empty())
    fs::remove(file);
  else
    write_durably(file, text_of(later));
}

}  // namespace

void keep_metrics_until(const fs::path& path, Index last_step) {
  if (!fs::exists(path)) return;
  History history = read_history(path);
  keep_damaged(path, history);
  std::vector<Line>& lines = history.whole;
  if (history.last_step() < last_step) {
    if (const std::optional<fs::path> branch = find_branch(path, history.last_step(), last_step))
      return return_to_branch(path, *branch, lines, last_step);
    log::warn("{}: has no lines of steps {} to {}", path.string(), history.last_step() + 1,
              last_step);
  }
  keep_branch(path, cut_after(lines, last_step));
  write_durably(path, text_of(lines));
}

}  // namespace dos::train
