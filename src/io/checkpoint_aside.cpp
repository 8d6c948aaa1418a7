// SPDX-License-Identifier: Apache-2.0
// Of CheckpointStore: what becomes of checkpoints that the run is no longer behind, and of those
// that are none after all.
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/checkpoint_folders.hpp"
#include "io/checkpoint_moves.hpp"

namespace dos::io {

namespace fs = std::filesystem;

std::vector<CheckpointStore::Aside> CheckpointStore::aside() const {
  std::vector<Aside> found;
  for (const std::string& name : entries())
    if (const std::optional<AsideName> parsed = parse_aside(name);
        parsed && is_folder(folder_ / name))
      found.push_back({.step = parsed->step, .folder = folder_ / name});
  std::ranges::sort(found, {}, [](const Aside& each) {
    return std::tuple(each.step, written_at(each.folder), each.folder);
  });
  return found;
}

std::optional<fs::path> CheckpointStore::find_aside(Index step) const {
  std::optional<fs::path> newest;
  for (const Aside& each : aside())
    if (each.step == step) newest = each.folder;
  return newest;
}

bool CheckpointStore::is_aside(const fs::path& checkpoint) {
  return parse_aside(name_of_folder(checkpoint)).has_value();
}

/// Links to it follow without a moment in which one dangles.
void CheckpointStore::give_name(const std::string& from, const std::string& to) const {
  if (!refers("last", from) && !refers("best", from))
    return rename_folder(folder_ / from, folder_ / to);
  const fs::path staging = folder_ / (to + std::string(kStagingSuffix));
  std::error_code ignored;
  fs::remove_all(staging, ignored);
  duplicate(folder_ / from, staging);
  rename_folder(staging, folder_ / to);
  sync_directory(folder_);
  repoint(from, to);
  discard(from);
}

/// Sets these aside, which came after step `after`.
void CheckpointStore::set_aside(const std::vector<Index>& later, Index after) const {
  if (later.empty()) return;
  Index number = 1;
  for (const std::string& name : entries())
    if (const std::optional<AsideName> parsed = parse_aside(name); parsed && parsed->after == after)
      number = std::max(number, parsed->number + 1);
  for (const Index step : later)
    give_name(step_name(step), name_of({.step = step, .after = after, .number = number}));
  log::info(
      "{}: what came after step {} before is set aside, steps {}: each goes when the run has "
      "passed it; --resume {} returns there",
      folder_.string(), after, fmt::join(later, ", "), later.back());
}

/// Brings back a checkpoint that was set aside, and those before it that were together with it.
void CheckpointStore::bring_back(const AsideName& chosen) const {
  for (const Aside& each : aside()) {
    const AsideName name = parse_aside(each.folder.filename().string()).value();
    const bool is_of_it =
        std::tie(name.after, name.number) == std::tie(chosen.after, chosen.number);
    if (is_of_it && name.step <= chosen.step) give_name(name_of(name), step_name(name.step));
  }
}

/// Lets `last` name the newest that is not later than `step`, unless it names one that is not.
void CheckpointStore::take_last_back(Index step) const {
  const std::string name = step_name(step);
  if (is_folder(folder_ / name)) {
    if (!refers("last", name)) point("last", name);
    return;
  }
  const fs::path link = folder_ / "last";
  const std::optional<Index> named = named_last();
  if (named && *named <= step && !is_aside(link)) return;
  std::vector<Index> earlier = steps();
  std::erase_if(earlier, [&](Index each) { return each > step; });
  if (!earlier.empty()) return point("last", step_name(earlier.back()));
  remove_link(link);
}

void CheckpointStore::go_on_from(Index step, const fs::path& checkpoint) {
  const Change change(*this);
  is_ordered_ = false;
  newest_ = step;
  if (!is_folder(folder_)) return;
  const std::optional<AsideName> chosen = parse_aside(name_of_folder(checkpoint));
  const bool comes_back = chosen && owns(checkpoint);
  const Index common = chosen ? chosen->after : step;
  if (!comes_back) take_last_back(common);
  std::vector<Index> later = steps();
  std::erase_if(later, [&](Index each) { return each <= common; });
  set_aside(later, common);
  if (comes_back) {
    bring_back(*chosen);
    take_last_back(step);
  }
  sync_directory(folder_);
}

/// Of what is set aside, the steps that the run has passed.
std::vector<CheckpointStore::Aside> CheckpointStore::surplus_aside(Index newest) const {
  std::vector<Aside> passed;
  for (const Aside& each : aside()) {
    const std::string name = each.folder.filename().string();
    if (each.step <= newest && !refers("last", name) && !refers("best", name))
      passed.push_back(each);
  }
  return passed;
}

/// Lets links that point to `name` point to what they did before.
void CheckpointStore::restore_links(const std::string& name, const LinkTargets& before) const {
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!refers(kLinks[i], name)) continue;
    if (before[i] && *before[i] != name && is_folder(folder_ / *before[i]))
      point(kLinks[i], *before[i]);
    else
      remove_link(folder_ / kLinks[i]);
  }
}

/// Makes a folder that was to be a checkpoint what it was before. Where storage fails that, too, it
/// stays, complete, and counts among the newest.
void CheckpointStore::withdraw(const std::string& name, const fs::path& staging,
                               const LinkTargets& before) const {
  warn_of([&] {
    restore_links(name, before);
    rename_folder(folder_ / name, staging);
    sync_directory(folder_);
  });
}

CheckpointStore::LinkTargets CheckpointStore::link_targets() const {
  LinkTargets targets;
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = link_target(folder_ / kLinks[i]);
  return targets;
}

void CheckpointStore::keep_links() {
  const std::lock_guard lock(mutex_);
  is_ordered_ = false;
  newest_ = named_last().value_or(-1);
  const std::optional<fs::path> best = this->best();
  newest_best_ = best ? step_of_folder(*best).value_or(-1) : -1;
}

void CheckpointStore::take_back(Index step) {
  const Change change(*this);
  const std::string name = step_name(step);
  warn_of([&] {
    restore_links(name, links_before_);
    discard(name);
    sync_directory(folder_);
  });
}

}  // namespace dos::io
