// SPDX-License-Identifier: Apache-2.0
#include "train/metrics_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"
#include "base/log.hpp"
#include "io/checkpoint_directory.hpp"

namespace dos::train {
namespace {

namespace fs = std::filesystem;

struct Line {
  Index step = 0;
  Index run = kUnknownRun;
  std::string text;
};

/// Lines in the order of the file.
struct History {
  std::vector<Line> whole;
  std::string damaged;
  Index damaged_lines = 0;
  Index first_damaged = 0;  ///< number of the line, from 1
};

/// nullopt for a line that is damaged or torn.
std::optional<Line> line_of(const std::string& text) {
  const auto json = try_parse_json_object(text);
  if (!json || !json->contains("step") || !json->at("step").is_number_integer())
    return std::nullopt;
  Line line{.step = json->at("step").get<Index>(), .text = text};
  if (const auto run = json->find(kRunKey); run != json->end() && run->is_number_integer())
    line.run = run->get<Index>();
  return line.step >= 0 ? std::optional(std::move(line)) : std::nullopt;
}

History read_history(const fs::path& path) {
  History history;
  std::istringstream lines(read_text(path));
  Index number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (std::optional<Line> whole = line_of(line)) {
      history.whole.push_back(std::move(*whole));
      continue;
    }
    if (history.damaged_lines++ == 0) history.first_damaged = number;
    history.damaged += line + "\n";
  }
  return history;
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
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start)) continue;
    const Index number = std::strtoll(name.c_str() + start.size(), nullptr, 10);
    if (number > 0 && entry.path() == branch_path(path, number)) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

/// The runs behind a state, and up to which step they count.
class Ancestry {
 public:
  Ancestry(const nlohmann::json& runs, Index last_step) : last_step_(last_step) {
    if (runs.is_null()) return;
    for (const JsonField& each :
         JsonField(runs, "the runs that a checkpoint comes of", "use another checkpoint")
             .elements())
      starts_.emplace_back(each.member("after").index(), each.member(kRunKey).index());
  }

  [[nodiscard]] Index last_step() const { return last_step_; }

  /// Whether the line tells of a step that led to the state.
  [[nodiscard]] bool has(const Line& line) const {
    return line.step <= last_step_ && line.run == behind(line.step).second;
  }

  /// The step after which the run that did this one began; 0 where that is not known.
  [[nodiscard]] Index start_of(Index step) const { return behind(step).first; }

 private:
  [[nodiscard]] std::pair<Index, Index> behind(Index step) const {
    using Start = std::pair<Index, Index>;
    const auto next = std::ranges::lower_bound(starts_, step, {}, &Start::first);
    return next == starts_.begin() ? Start{0, kUnknownRun} : *std::prev(next);
  }

  std::vector<std::pair<Index, Index>> starts_;  ///< step before the first, and run
  Index last_step_;
};

/// A branch and what of it goes back into the file.
struct Return {
  fs::path path;
  std::vector<Line> lines;
  std::vector<Line> rest;
};

/// Of the branch in `path` what led to the state after step `reached`. Of lines that do not say of
/// which run they are those alone that go on there and lead to the end.
Return find_return(const fs::path& path, const Ancestry& ancestry, Index reached) {
  Return found{.path = path, .lines = {}, .rest = {}};
  for (Line& line : read_history(path).whole) {
    const bool is_behind = line.step > reached || line.run == kUnknownRun;
    const bool returns = is_behind && ancestry.has(line);
    (returns ? found.lines : found.rest).push_back(std::move(line));
  }
  const bool says_run =
      std::ranges::none_of(found.lines, [](const Line& line) { return line.run == kUnknownRun; });
  const bool goes_on = !found.lines.empty() && found.lines.front().step <= reached + 1 &&
                       found.lines.back().step == ancestry.last_step();
  if (!says_run && !goes_on) found.lines.clear();
  return found;
}

/// Appends to `lines` what branches have of the state's steps after them; what is to become of the
/// branches. Lines that name no run take the place of those of the same steps, which go to `left`.
std::vector<Return> take_from_branches(const fs::path& path, const Ancestry& ancestry,
                                       std::vector<Line>& lines, std::vector<Line>& left) {
  std::vector<Return> returns;
  const std::vector<Index> numbers = branch_numbers(path);
  for (Index reached = lines.empty() ? 0 : lines.back().step; reached < ancestry.last_step();
       reached = lines.back().step) {
    std::optional<Return> next;
    for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
      Return found = find_return(branch_path(path, *number), ancestry, reached);
      const bool is_earlier =
          !found.lines.empty() && (!next || found.lines.front().step < next->lines.front().step);
      if (is_earlier) next = std::move(found);
    }
    if (!next) break;
    log::info("{}: steps {} to {} come back from {}", path.string(), next->lines.front().step,
              next->lines.back().step, next->path.filename().string());
    const auto replaced = std::ranges::find_if(
        lines, [&](const Line& line) { return line.step >= next->lines.front().step; });
    left.insert(left.begin(), replaced, lines.end());
    lines.erase(replaced, lines.end());
    std::ranges::copy(next->lines, std::back_inserter(lines));
    returns.push_back(std::move(*next));
  }
  return returns;
}

/// The folder may have none of steps before a run that began with another folder's checkpoint.
Index step_before(const fs::path& path, const std::vector<Line>& lines, const Ancestry& ancestry) {
  if (!lines.empty()) return ancestry.start_of(lines.front().step);
  return io::CheckpointStore(path.parent_path()).has_any() ? 0 : ancestry.last_step();
}

void tell_gaps(const fs::path& path, const std::vector<Line>& lines, const Ancestry& ancestry) {
  Index before = step_before(path, lines, ancestry);
  const auto tell = [&](Index next) {
    if (next > before + 1)
      log::warn("{}: has no lines of steps {} to {} of the run that is gone on with", path.string(),
                before + 1, next - 1);
    before = next;
  };
  for (const Line& line : lines) tell(line.step);
  tell(ancestry.last_step() + 1);
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

}  // namespace

nlohmann::json with_new_run(nlohmann::json runs, Index step) {
  if (!runs.is_array()) runs = nlohmann::json::array();
  if (runs.empty() && step > 0)
    runs.push_back({{"after", 0U}, {kRunKey, std::uint64_t{kUnknownRun}}});
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto run = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  // As they are when they have been read.
  runs.push_back(
      {{"after", static_cast<std::uint64_t>(step)}, {kRunKey, static_cast<std::uint64_t>(run)}});
  return runs;
}

void keep_metrics_until(const fs::path& path, Index last_step, const nlohmann::json& runs) {
  History history = fs::exists(path) ? read_history(path) : History{};
  keep_damaged(path, history);
  const Ancestry ancestry(runs, last_step);
  std::vector<Line>& lines = history.whole;
  const auto parts = std::stable_partition(lines.begin(), lines.end(),
                                           [&](const Line& line) { return ancestry.has(line); });
  std::vector<Line> left(parts, lines.end());
  lines.erase(parts, lines.end());
  const std::vector<Return> returns = take_from_branches(path, ancestry, lines, left);
  tell_gaps(path, lines, ancestry);
  keep_branch(path, left);
  if (fs::exists(path) || !lines.empty()) write_durably(path, text_of(lines));
  // Last: what is there twice is not lost.
  for (const Return& each : returns) {
    if (each.rest.empty())
      fs::remove(each.path);
    else
      write_durably(each.path, text_of(each.rest));
  }
}

}  // namespace dos::train
