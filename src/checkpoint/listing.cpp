// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/listing.hpp"

#include <algorithm>
#include <system_error>

#include "base/error.hpp"
#include "checkpoint/part_reader.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/checkpoint_levels.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/run_folder.hpp"
#include "io/safetensors.hpp"
#include "storage/engine.hpp"

namespace dos::checkpoint {
namespace {

namespace fs = std::filesystem;

Index bytes_in(const fs::path& folder) {
  Index bytes = 0;
  std::error_code cause;
  for (fs::directory_iterator entry(folder, cause), end; !cause && entry != end;
       entry.increment(cause)) {
    std::error_code ignored;
    const auto size = entry->file_size(ignored);
    if (!ignored) bytes += static_cast<Index>(size);
  }
  return bytes;
}

/// Whether a link, which may dangle, points to the folder.
bool points_to(const fs::path& link, const fs::path& folder) {
  std::error_code cause;
  const fs::path target = fs::read_symlink(link, cause);
  return !cause && target.filename() == folder.filename();
}

void expect_run(const fs::path& out) {
  std::error_code ignored;
  expect(fs::is_directory(out, ignored),
         "{}: no such folder: give the one that train_gpt --out wrote", out.string());
  const auto has = [&](const char* name) { return fs::exists(out / name, ignored); };
  expect(
      has(io::kRunInfo) || has("metrics.jsonl") || has(io::kCheckpointsName),
      "{}: no run's folder, which has {}, metrics.jsonl or {}: give the one that train_gpt --out "
      "wrote",
      out.string(), io::kRunInfo, io::kCheckpointsName);
}

Listed describe(const fs::path& folder, Index step, bool is_local) {
  Listed listed{.step = step, .folder = folder};
  listed.is_last = points_to(folder.parent_path() / "last", folder);
  listed.is_best = points_to(folder.parent_path() / "best", folder);
  listed.is_aside = io::CheckpointStore::is_aside(folder);
  listed.is_local = is_local;
  listed.bytes = bytes_in(folder);
  listed.time = io::written_at(folder);
  return listed;
}

/// A run that is under way may remove what was there a moment ago: that is no damage.
bool is_gone(const fs::path& folder) {
  std::error_code ignored;
  return !fs::exists(folder, ignored);
}

void add_all(const io::CheckpointStore& store, bool is_local, std::vector<Listed>& all) {
  for (const auto& [step, folder] : store.aside()) all.push_back(describe(folder, step, is_local));
  for (const Index step : store.steps()) {
    try {
      all.push_back(describe(store.resolve(std::to_string(step)), step, is_local));
    } catch (const Error&) {
      const std::vector<Index> steps = store.steps();
      if (std::ranges::find(steps, step) != steps.end()) throw;
    }
  }
}

void sort_by_step(std::vector<Listed>& all) {
  std::ranges::stable_sort(all, {}, &Listed::step);
}

/// The run's last checkpoint, or this node's part of it.
std::optional<fs::path> last_of(const io::CheckpointLevels& levels) {
  if (const auto last = levels.last()) return last->folder;
  return levels.local() == nullptr ? std::nullopt : levels.local()->last();
}

/// Whether other nodes have parts of what is there; a damaged one may have been one.
bool has_parts(const fs::path& local) {
  try {
    const std::optional<fs::path> last = io::CheckpointStore(local).last();
    return last && io::read_manifest(*last).parts > 1;
  } catch (const Error&) {
    return true;
  }
}

/// What the configuration of the run's last checkpoint says of `train.KEY`.
template <class T>
std::optional<T> kept_by_run(const io::CheckpointLevels& levels, const char* key) {
  const std::optional<fs::path> last = last_of(levels);
  if (!last) return std::nullopt;
  const nlohmann::json configuration = io::read_manifest(*last).configuration;
  const nlohmann::json::json_pointer place(std::string("/train/") + key);
  if (!configuration.is_object() || !configuration.contains(place)) return std::nullopt;
  const nlohmann::json& value = configuration.at(place);
  return value.is_number() && value.get<double>() >= 0 ? std::optional(value.get<T>())
                                                       : std::nullopt;
}

/// Throws Error unless the files are there, as long as they are to be and with what the manifest
/// lists; their tensors are not read.
void expect_complete(const fs::path& folder, const io::CheckpointManifest& manifest) {
  for (const io::FileRecord& file : manifest.files)
    if (io::has_pieces_here(file, manifest))
      io::expect_layout(io::SafetensorsFile(folder / file.name), manifest);
}

/// Of the folder's part.
Index bytes_of_part(const io::CheckpointManifest& manifest) {
  Index bytes = 0;
  for (const io::FileRecord& file : manifest.files)
    for (const io::TensorRecord& tensor : file.tensors)
      for (const io::PieceSum& piece : tensor.pieces)
        if (piece.part == manifest.part) bytes += piece.bytes;
  return bytes;
}

/// `last`, or without it the newest of those that stay; nullopt: none does.
std::optional<Index> newest_kept(const io::CheckpointStore& store,
                                 const std::vector<Index>& surplus) {
  std::vector<Index> kept = store.steps();
  std::erase_if(kept, [&](Index step) { return std::ranges::count(surplus, step) > 0; });
  if (kept.empty()) return std::nullopt;
  const std::optional<Index> last = store.named_last();
  return last && std::ranges::count(kept, *last) > 0 ? *last : kept.back();
}

/// Reads every byte of what a run would go on from. Throws Error when it is damaged: what is to be
/// removed may be all that is intact.
void expect_newest_intact(const io::CheckpointStore& store, const std::vector<Index>& surplus) {
  const std::optional<Index> step = newest_kept(store, surplus);
  expect(step.has_value(), "nothing is removed: no checkpoint would stay");
  const fs::path folder = store.resolve(std::to_string(*step));
  try {
    storage::Engine engine;
    verify(engine, folder, io::read_manifest(folder));
  } catch (const Error& error) {
    // A run under way, which a dry run does not wait for, has removed it since.
    if (is_gone(folder)) return;
    fail(
        "nothing is removed: the newest checkpoint that would stay is damaged: {}; remove {} "
        "first, and prune again",
        error.what(), folder.string());
  }
}

/// Removes, or would remove, what the store's rule says.
void prune(io::CheckpointStore& store, bool is_local, bool is_dry, std::vector<Listed>& gone) {
  std::vector<Listed> surplus;
  const std::vector<Index> steps = store.surplus();
  for (const Index step : steps)
    surplus.push_back(describe(store.resolve(std::to_string(step)), step, is_local));
  for (const auto& [step, folder] : store.surplus_aside())
    surplus.push_back(describe(folder, step, is_local));
  if (!surplus.empty()) expect_newest_intact(store, steps);
  if (!is_dry) {
    store.prune();
    std::erase_if(surplus, [](const Listed& each) { return !is_gone(each.folder); });
  }
  gone.insert(gone.end(), surplus.begin(), surplus.end());
}

}  // namespace

std::vector<Listed> list_checkpoints(const fs::path& named, bool verifies) {
  const fs::path out = io::run_of(named);
  expect_run(out);
  const io::CheckpointLevels levels(out);
  std::vector<Listed> all;
  add_all(levels.shared(), /*is_local=*/false, all);
  if (levels.local() != nullptr) add_all(*levels.local(), /*is_local=*/true, all);
  sort_by_step(all);
  storage::Engine engine;
  for (Listed& listed : all) {
    try {
      const io::CheckpointManifest manifest = io::read_manifest(listed.folder);
      listed.validation_loss = manifest.best_validation_loss;
      listed.part = manifest.part;
      listed.parts = manifest.parts;
      // Files have holes.
      if (manifest.parts > 1) listed.bytes = bytes_of_part(manifest);
      if (verifies)
        verify(engine, listed.folder, manifest);
      else
        expect_complete(listed.folder, manifest);
    } catch (const Error& error) {
      listed.fault = error.what();
    }
  }
  std::erase_if(
      all, [&](const Listed& listed) { return !listed.fault.empty() && is_gone(listed.folder); });
  return all;
}

std::vector<Listed> prune_checkpoints(const fs::path& named, const Pruning& pruning) {
  const fs::path out = io::run_of(named);
  expect_run(out);
  std::optional<io::RunLock> lock;
  if (!pruning.is_dry)
    lock.emplace(out, io::LockWords{.what = "the run in",
                                    .remedy = "it removes its checkpoints itself (train.keep); "
                                              "prune when it has ended"});
  const io::CheckpointLevels levels(out);
  io::Retention retention;
  retention.keep = std::max<Index>(
      1, pruning.keep ? *pruning.keep : kept_by_run<Index>(levels, "keep").value_or(1));
  std::vector<Listed> gone;
  if (const std::optional<io::LocalLevel> local = io::find_local(out)) {
    io::Retention there = retention;
    if (has_parts(local->folder)) there.keep = std::max(there.keep, io::kLeastParts);
    io::CheckpointStore store(local->folder, there);
    prune(store, /*is_local=*/true, pruning.is_dry, gone);
  }
  retention.every_hours = pruning.every_hours
                              ? *pruning.every_hours
                              : kept_by_run<double>(levels, "keep_every_hours").value_or(0);
  io::CheckpointStore store(out, retention);
  prune(store, /*is_local=*/false, pruning.is_dry, gone);
  sort_by_step(gone);
  return gone;
}

}  // namespace dos::checkpoint
