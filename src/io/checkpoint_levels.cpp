// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_levels.hpp"

#include <algorithm>
#include <random>
#include <span>
#include <system_error>
#include <tuple>

#include "base/checksum.hpp"
#include "base/durable_folder.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"
#include "base/json_text.hpp"
#include "base/log.hpp"
#include "io/checkpoint_manifest.hpp"

namespace dos::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecordName = "local.json";
constexpr const char* kKey = "train.checkpoint_local";

/// What a record says; nullopt where there is none, or none that can be read.
std::optional<LocalLevel> read_record(const fs::path& folder) {
  const fs::path path = folder / kRecordName;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  const char* remedy = "checkpoints of train.checkpoint_local are left out";
  try {
    const nlohmann::json document = read_json_object(path, remedy);
    const JsonField root(document, path.string(), remedy);
    LocalLevel level{root.member("folder").text(), root.member("line").text()};
    if (document.contains("next")) level.next = root.member("next").text();
    return level;
  } catch (const Error& error) {
    log::warn("{}", error.what());
    return std::nullopt;
  }
}

void write_record(const fs::path& folder, const LocalLevel& level) {
  nlohmann::json document{{"folder", level.folder.string()}, {"line", level.line}};
  if (!level.next.empty()) document["next"] = level.next;
  write_durably(folder / kRecordName, json_text(document, 1) + "\n");
}

std::string random_line() {
  std::random_device random;
  return hex_text((std::uint64_t{random()} << 32) | random());
}

fs::path name_of_run(const fs::path& out) {
  std::error_code ignored;
  fs::path path = fs::weakly_canonical(fs::absolute(out), ignored);
  if (!path.has_filename()) path = path.parent_path();
  const std::string text = path.string();
  return path.filename().string() + "-" + hex_text(checksum_of(std::as_bytes(std::span(text))));
}

/// What OUT says of the run's first level, wherever that is.
std::optional<LocalLevel> record_of_run(const fs::path& out) {
  std::optional<LocalLevel> level = read_record(out);
  // A run's folder that was copied has the record of the one that it is a copy of.
  if (!level || level->folder.filename() != name_of_run(out)) return std::nullopt;
  return level;
}

}  // namespace

fs::path local_folder(const fs::path& directory, const fs::path& out) {
  return fs::absolute(directory).lexically_normal() / name_of_run(out);
}

std::optional<LocalLevel> find_local(const fs::path& out) {
  const std::optional<LocalLevel> level = record_of_run(out);
  if (!level) return std::nullopt;
  std::optional<LocalLevel> there = read_record(level->folder);
  const bool is_on_line =
      there && there->folder == level->folder &&
      (there->line == level->line || (!level->next.empty() && there->line == level->next));
  return is_on_line ? there : std::nullopt;
}

RunLock lock_local(const fs::path& directory, const fs::path& out) {
  const fs::path folder = local_folder(directory, out);
  const std::error_code cause = create_directories_durably(folder);
  expect(!cause,
         "{} = {}: cannot create '{}': {}; name a folder of a disk of this node that can be "
         "written to",
         kKey, directory.string(), folder.string(), cause.message());
  return RunLock(folder, {.what = kKey, .remedy = "wait for it or stop it"});
}

std::string line_of(const fs::path& directory, const fs::path& out, LocalStart start,
                    bool has_all) {
  const std::optional<LocalLevel> record = record_of_run(out);
  if (!record || record->folder != local_folder(directory, out)) return random_line();
  // A start that was interrupted has brought some nodes there.
  if (!record->next.empty()) return record->next;
  return has_all && find_local(out) && start == LocalStart::kGoesOn ? record->line : random_line();
}

void take_local(const fs::path& directory, const fs::path& out, LocalStart start,
                const std::string& line) {
  const fs::path folder = local_folder(directory, out);
  const std::optional<LocalLevel> found = find_local(out);
  const bool is_ours = found && found->folder == folder && start != LocalStart::kAnew;
  if (is_ours && found->line == line) return;
  const fs::path checkpoints = folder / kCheckpointsName;
  std::error_code cause;
  if (!is_ours && fs::exists(checkpoints, cause)) {
    log::info("{}: removing checkpoints that are not on the way of this run", checkpoints.string());
    fs::remove_all(checkpoints, cause);
    expect(!cause, "{}: cannot remove: {}; remove it by hand", checkpoints.string(),
           cause.message());
  }
  write_record(folder, {folder, line});
}

void announce_local(const fs::path& directory, const fs::path& out, const std::string& line) {
  const std::optional<LocalLevel> before = record_of_run(out);
  const fs::path folder = local_folder(directory, out);
  if (before && before->folder == folder && before->line != line)
    write_record(out, {folder, before->line, line});
}

void note_local(const fs::path& directory, const fs::path& out, const std::string& line) {
  const LocalLevel level{local_folder(directory, out), line};
  if (read_record(out) != level) write_record(out, level);
}

void leave_unseen_local(const fs::path& out) {
  if (find_local(out)) return;
  std::error_code cause;
  const bool was_there = fs::remove(out / kRecordName, cause);
  expect(!cause, "{}: cannot remove: {}; make its folder writable", (out / kRecordName).string(),
         cause.message());
  if (was_there) sync_directory(out);
}

CheckpointLevels::CheckpointLevels(const fs::path& out, std::optional<std::set<Index>> local_steps,
                                   std::string without)
    : shared_(out, {}, without), local_steps_(std::move(local_steps)) {
  if (local_steps_ && local_steps_->empty()) return;
  if (const std::optional<LocalLevel> level = find_local(out))
    local_.emplace(level->folder, Retention(), std::move(without));
}

bool CheckpointLevels::looks_at(Index step, const fs::path& folder) const {
  if (local_steps_) return local_steps_->contains(step);
  try {
    return read_manifest(folder).parts == 1;
  } catch (const Error&) {
    // What is wrong with it concerns those who take it.
    return true;
  }
}

/// The last one of the first level, of those that are looked at. Of several ranks not what a link
/// names: a node that was killed may not have moved it yet.
std::optional<CheckpointLevels::Found> CheckpointLevels::last_local() const {
  std::optional<Found> last;
  if (!local_steps_) last = last_of(*local_);
  if (!local_steps_ && (!last || looks_at(last->step, last->folder))) return last;
  for (const Found& each : all())
    if (each.is_local && (!last || each.step < last->step)) return each;
  return std::nullopt;
}

std::optional<CheckpointLevels::Found> CheckpointLevels::last_of(
    const CheckpointStore& store) const {
  const std::optional<fs::path> folder = store.last();
  if (!folder) return std::nullopt;
  return Found{.step = CheckpointStore::step_of_folder(*folder).value_or(0),
               .is_local = &store == local(),
               .folder = *folder};
}

std::optional<CheckpointLevels::Found> CheckpointLevels::last() const {
  std::optional<Found> near;
  try {
    if (local_) near = last_local();
  } catch (const Error& error) {
    log::warn("{}", error.what());
  }
  std::optional<Found> far;
  try {
    far = last_of(shared_);
  } catch (const Error& error) {
    const std::optional<Index> lost = shared_.named_last();
    if (!near || !lost || near->step < *lost) throw;
    log::warn("{}; taking '{}'", error.what(), near->folder.string());
  }
  return near && (!far || near->step >= far->step) ? near : far;
}

std::vector<CheckpointLevels::Found> CheckpointLevels::all() const {
  std::vector<Found> found;
  const auto add = [&](const CheckpointStore& store) {
    const bool is_local = &store == local();
    for (const Index step : store.steps())
      if (const fs::path folder = store.resolve(std::to_string(step));
          !is_local || looks_at(step, folder))
        found.push_back({.step = step, .is_local = is_local, .folder = folder});
  };
  try {
    if (local_) add(*local_);
  } catch (const Error& error) {
    log::warn("{}", error.what());
  }
  add(shared_);
  std::ranges::sort(found, [](const Found& a, const Found& b) {
    return std::tuple(a.step, a.is_local) > std::tuple(b.step, b.is_local);
  });
  return found;
}

fs::path CheckpointLevels::resolve(const std::string& selector) const {
  if (selector == "last")
    if (const std::optional<Found> found = last()) return found->folder;
  const bool digits =
      !selector.empty() && selector.find_first_not_of("0123456789") == selector.npos;
  if (!digits || !local_) return shared_.resolve(selector);
  for (const Found& each : all())
    if (std::to_string(each.step) == selector) return each.folder;
  for (const CheckpointStore::Aside& each : local_->aside())
    if (std::to_string(each.step) == selector && looks_at(each.step, each.folder))
      return each.folder;
  return shared_.resolve(selector);
}

bool CheckpointLevels::owns(const fs::path& checkpoint) const {
  return shared_.owns(checkpoint) || (local_ && local_->owns(checkpoint));
}

bool CheckpointLevels::is_local_alone(const fs::path& checkpoint) const {
  if (!local_ || !local_->owns(checkpoint)) return false;
  try {
    const std::optional<Found> far = last_of(shared_);
    return !far || far->step != CheckpointStore::step_of_folder(checkpoint);
  } catch (const Error&) {
    return true;
  }
}

}  // namespace dos::io
