// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_directory.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "io/checkpoint_folders.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/checkpoint_moves.hpp"
#include "io/run_folder.hpp"
#include "io/run_lock.hpp"

namespace dos::io {
namespace fs = std::filesystem;

fs::file_time_type written_at(const fs::path& checkpoint) {
  std::error_code cause;
  const fs::file_time_type time = fs::last_write_time(checkpoint / kManifestName, cause);
  return cause ? fs::last_write_time(checkpoint, cause) : time;
}

CheckpointStore::Hold::Hold(CheckpointStore& store, Index step) : store_(&store), step_(step) {
  const std::lock_guard lock(store.holds_mutex_);
  store.held_.insert(step);
}

CheckpointStore::Hold::Hold(Hold&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)), step_(other.step_) {}

CheckpointStore::Hold::~Hold() {
  if (store_ == nullptr) return;
  const std::lock_guard lock(store_->holds_mutex_);
  store_->held_.erase(store_->held_.find(step_));
}

CheckpointStore::Staging::Staging(CheckpointStore& store, Index step)
    : store_(&store), step_(step), path_(store.staging_path(step)) {
  std::error_code cause;
  const bool created = fs::create_directory(path_, cause);
  expect(!cause, "{}: cannot create the folder: {}; choose a writable place", path_.string(),
         cause.message());
  expect(created, "{}: cannot remove what an interrupted run left; remove it by hand",
         path_.string());
  store.writing_.insert(path_.filename().string());
  store.most_writing_ = std::max(store.most_writing_, store.writing_.size());
}

CheckpointStore::Staging::Staging(Staging&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      step_(other.step_),
      path_(std::move(other.path_)) {}

CheckpointStore::Staging::~Staging() {
  if (store_ == nullptr) return;
  // As long as the name is among those being written, nobody else touches the folder.
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  store_->discarded_.end_of(path_);
  const std::lock_guard lock(store_->mutex_);
  store_->writing_.erase(path_.filename().string());
}

fs::path CheckpointStore::Staging::commit(bool mark_best, bool prunes) {
  require(store_ != nullptr, "a checkpoint is committed once");
  // Not under the lock of what follows: it takes as long as the device.
  sync_directory(path_);
  const std::lock_guard lock(store_->mutex_);
  store_->discarded_.end_of(path_);
  fs::path final_folder = store_->publish(path_, step_, mark_best, prunes);
  std::exchange(store_, nullptr)->writing_.erase(path_.filename().string());
  return final_folder;
}

CheckpointStore::CheckpointStore(fs::path out, const Retention& retention, std::string without)
    : out_(std::move(out)),
      folder_(out_ / kCheckpointsName),
      place_(out_),
      checkpoints_place_(folder_),
      retention_(retention),
      without_(std::move(without)) {
  require(retention.keep >= 1, "at least one checkpoint is kept");
}

fs::path CheckpointStore::staging_path(Index step) const {
  return folder_ / (step_name(step) + std::string(kStagingSuffix));
}

fs::path CheckpointStore::folder_of(Index step) const {
  return folder_ / step_name(step);
}

void CheckpointStore::stay() {
  const std::lock_guard lock(mutex_);
  place_.remember();
  checkpoints_place_.remember();
}

void CheckpointStore::make_folder() {
  place_.expect_kept();
  std::error_code cause;
  if (place_.is_known())
    fs::create_directory(folder_, cause);
  else
    fs::create_directories(folder_, cause);
  expect(!cause, "{}: cannot create the folder: {}; choose a writable --out", folder_.string(),
         cause.message());
  checkpoints_place_.expect_kept();
  // Of a run that begins it is there from now on.
  if (place_.is_known()) checkpoints_place_.remember();
}

void CheckpointStore::remove_discarded() const noexcept {
  std::size_t spares = 0;
  {
    const std::lock_guard lock(mutex_);
    if (recycles_) spares = most_writing_;
  }
  discarded_.remove(spares);
}

CheckpointStore::Staging CheckpointStore::begin(Index step) {
  require(step >= 0, "a step is not negative");
  const Change change(*this);
  require(!writing_.contains(staging_path(step).filename().string()),
          "one checkpoint of a step at a time");
  make_folder();
  if (lock_ != nullptr) lock_->keep();
  sync_directory(out_);
  remove_leftovers();
  settle_refuges();
  return {*this, step};
}

fs::path CheckpointStore::publish(const fs::path& staging, Index step, bool mark_best,
                                  bool prunes) {
  const std::string name = step_name(step);
  if (is_folder(folder_ / name)) move_aside(name);
  const LinkTargets before = link_targets();
  links_before_ = before;
  rename_folder(staging, folder_ / name);
  const Index newest = is_ordered_ ? step : std::max(newest_, step);
  try {
    sync_directory(folder_);
    if (step == newest) point("last", name);
    if (mark_best && (is_ordered_ || step >= newest_best_)) point("best", name);
  } catch (const std::exception&) {
    withdraw(name, staging, before);
    throw;
  }
  newest_ = newest;
  if (mark_best) newest_best_ = std::max(newest_best_, step);
  // The checkpoint is there; what is left over goes another time.
  warn_of([&] { settle_refuges(); });
  if (prunes) warn_of([&] { prune(newest_); });
  return folder_ / name;
}

/// Frees `name` for its successor without a moment in which a link that points to it dangles.
void CheckpointStore::move_aside(const std::string& name) const {
  const std::string refuge = name + std::string(kRefugeSuffix);
  duplicate(folder_ / name, folder_ / refuge);
  sync_directory(folder_);
  repoint(name, refuge);
  discard(name);
}

/// Ends what move_aside() began, now or in a run that crashed: links return to the complete folder,
/// and refuges without a link go.
void CheckpointStore::settle_refuges() const {
  for (const std::string& refuge : entries()) {
    if (!refuge.starts_with(kStepPrefix) || !refuge.ends_with(kRefugeSuffix)) continue;
    const std::string name = refuge.substr(0, refuge.size() - kRefugeSuffix.size());
    if (is_folder(folder_ / name)) repoint(refuge, name);
    if (!refers("last", refuge) && !refers("best", refuge)) discard(refuge);
  }
}

bool CheckpointStore::refers(const std::string& link, const std::string& target) const {
  return link_target(folder_ / link) == target;
}

void CheckpointStore::repoint(const std::string& from, const std::string& to) const {
  for (const char* link : kLinks)
    if (refers(link, from)) point(link, to);
}

void CheckpointStore::point(const std::string& link, const std::string& target) const {
  point_link(folder_ / link, target);
}

void CheckpointStore::discard(const std::string& name) const {
  discarded_.take(folder_ / name);
}

void CheckpointStore::remove_leftovers() const {
  for (const std::string& name : entries()) {
    const bool ours = name.starts_with(kStepPrefix) || name == "last.tmp" || name == "best.tmp";
    if (!ours || !name.ends_with(kStagingSuffix) || writing_.contains(name)) continue;
    if (discarded_.has(name)) continue;
    std::error_code cause;
    fs::remove_all(folder_ / name, cause);
    if (cause)
      log::warn("{}: cannot remove what an interrupted run left: {}; remove it by hand",
                (folder_ / name).string(), cause.message());
  }
}

bool CheckpointStore::is_held(Index step) const {
  const std::lock_guard lock(holds_mutex_);
  return held_.contains(step);
}

std::vector<Index> CheckpointStore::surplus(Index newest) const {
  std::vector<CheckpointAge> ages;
  for (const Index step : steps()) {
    const std::string name = step_name(step);
    if (step <= newest)
      ages.push_back({.step = step,
                      .written = written_at(folder_ / name),
                      .is_needed = refers("last", name) || refers("best", name) || is_held(step)});
  }
  return io::surplus(ages, retention_);
}

std::vector<Index> CheckpointStore::prune(Index newest) const {
  std::vector<Index> gone;
  for (const Index step : surplus(newest)) {
    warn_of([&] {
      discard(step_name(step));
      gone.push_back(step);
    });
  }
  for (const Aside& passed : surplus_aside(newest))
    warn_of([&] { discard(passed.folder.filename().string()); });
  return gone;
}

/// Of `last`; without one every step is before it.
Index CheckpointStore::last_step() const {
  const std::optional<fs::path> link = last();
  const std::optional<Index> step = link ? step_of_folder(*link) : std::nullopt;
  return step.value_or(std::numeric_limits<Index>::max());
}

std::vector<Index> CheckpointStore::surplus() const {
  const std::lock_guard lock(mutex_);
  return surplus(last_step());
}

std::vector<CheckpointStore::Aside> CheckpointStore::surplus_aside() const {
  const std::lock_guard lock(mutex_);
  return surplus_aside(last_step());
}

std::vector<Index> CheckpointStore::prune() {
  const Change change(*this);
  return prune(last_step());
}

std::vector<std::string> CheckpointStore::entries() const {
  std::vector<std::string> names;
  std::error_code cause;
  for (fs::directory_iterator entry(folder_, cause), end; !cause && entry != end;
       entry.increment(cause))
    names.push_back(entry->path().filename().string());
  expect(!cause || cause == std::errc::no_such_file_or_directory ||
             cause == std::errc::not_a_directory,
         "{}: cannot list the folder: {}; make it readable, or name another folder",
         folder_.string(), cause.message());
  return names;
}

bool CheckpointStore::owns(const fs::path& checkpoint) const {
  std::error_code error;
  return fs::equivalent(fs::absolute(checkpoint, error).parent_path(), folder_, error);
}

/// Of the folder itself, where a link to it is given.
std::string CheckpointStore::name_of_folder(const fs::path& folder) {
  std::error_code error;
  fs::path target = fs::canonical(folder, error);
  if (error) target = fs::read_symlink(folder, error);
  return (error ? folder : target).filename().string();
}

std::optional<Index> CheckpointStore::step_of_folder(const fs::path& folder) {
  std::string name = name_of_folder(folder);
  for (const std::string_view suffix : {kStagingSuffix, kRefugeSuffix})
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  if (const std::optional<AsideName> aside = parse_aside(name)) return aside->step;
  return step_of(name);
}

std::vector<Index> CheckpointStore::steps() const {
  std::vector<Index> result;
  for (const std::string& name : entries())
    if (const auto step = step_of(name); step && is_folder(folder_ / name)) result.push_back(*step);
  std::ranges::sort(result);
  return result;
}

std::string CheckpointStore::available() const {
  const std::vector<Index> found = steps();
  std::vector<Index> others;
  for (const Aside& each : aside()) others.push_back(each.step);
  const std::string set_aside =
      others.empty() ? "" : fmt::format("set aside: {}", fmt::join(others, ", "));
  if (!found.empty())
    return fmt::format("the steps there: {}{}{}", fmt::join(found, ", "),
                       others.empty() ? "" : "; ", set_aside);
  return others.empty() ? "there is no other checkpoint: " + without_ : set_aside;
}

std::optional<fs::path> CheckpointStore::follow(const std::string& link) const {
  const fs::path path = folder_ / link;
  std::error_code cause;
  if (fs::symlink_status(path, cause).type() == fs::file_type::not_found) return std::nullopt;
  expect(!cause, "{}: cannot read: {}; check the folder's permissions", path.string(),
         cause.message());
  const auto now = [&] { return fs::is_symlink(path) ? fs::read_symlink(path) : fs::path(link); };
  fs::path target = now();
  // A run that goes on moves the link, and then removes what it pointed to.
  for (fs::path before; !is_folder(folder_ / target); target = now()) {
    expect(before != target, "{}: points to '{}', which is no folder; {}", path.string(),
           target.string(), available());
    before = target;
  }
  return folder_ / target;
}

fs::path CheckpointStore::resolve_step(const std::string& digits) const {
  const std::optional<Index> step = parse_number(digits);
  expect(step.has_value(), "'{}' is no step number; {}", digits, available());
  const fs::path complete = folder_ / step_name(*step);
  if (is_folder(complete)) return complete;
  const fs::path refuge = folder_ / (step_name(*step) + std::string(kRefugeSuffix));
  if (const std::optional<fs::path> left = find_aside(*step); left && !is_folder(refuge))
    return *left;
  expect(is_folder(refuge), "{}: no checkpoint of step {}; {}", folder_.string(), *step,
         available());
  return refuge;
}

fs::path CheckpointStore::resolve(const std::string& selector) const {
  const bool digits =
      !selector.empty() && selector.find_first_not_of("0123456789") == selector.npos;
  const bool is_link = selector == "last" || selector == "best";
  std::error_code ignored;
  if (is_link || digits)
    expect(is_folder(out_), "{}: {}: {}", out_.string(),
           fs::exists(out_, ignored) ? "not a folder" : "no such folder", without_);
  if (is_link) {
    const std::optional<fs::path> found = follow(selector);
    expect(found.has_value(), "{}: no '{}' checkpoint; {}", folder_.string(), selector,
           available());
    return *found;
  }
  if (digits) return resolve_step(selector);
  expect(is_folder(selector), "'{}' names no checkpoint: give last, best, a step or a folder; {}",
         selector, available());
  const fs::path run = run_of(selector);
  return is_folder(run / kCheckpointsName)
             ? CheckpointStore(run, retention_, without_).resolve("last")
             : fs::path(selector);
}

}  // namespace dos::io
