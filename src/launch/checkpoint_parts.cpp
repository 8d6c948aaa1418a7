// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint_parts.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "checkpoint/copy.hpp"
#include "checkpoint/fault_of.hpp"
#include "io/checkpoint_levels.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/run_lock.hpp"
#include "launch/look_for.hpp"
#include "launch/output_folder.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/gather.hpp"
#include "storage/engine.hpp"

namespace dos::launch {
namespace {

using nlohmann::json;

/// What a rank sees of a checkpoint in train.checkpoint_local.
struct Seen {
  bool is_aside = false;
  Index part = 0;
  Index parts = 1;
  std::uint64_t identity = 0;  ///< the same of all parts, and no other checkpoint's
  std::string fault{};         ///< of its manifest; "": none

  [[nodiscard]] bool is_of_one(const Seen& other) const {
    return parts == other.parts && identity == other.identity && fault == other.fault;
  }
};

/// What a rank sees of the run's, by step, and which is marked as the best; -1: none.
struct View {
  bool has_folder = false;
  std::string fault{};  ///< why not all of them are seen; "": all are
  std::map<Index, Seen> steps{};
  Index best = -1;
};
using Views = std::vector<View>;  // by rank

Seen look_at(const std::filesystem::path& folder, bool is_aside) {
  Seen seen{.is_aside = is_aside};
  try {
    const io::CheckpointManifest manifest = io::read_manifest(folder);
    seen.part = manifest.part;
    seen.parts = manifest.parts;
    // In one folder all read the same file, which may be of an older release.
    const std::string text = read_text(folder / io::kManifestName);
    seen.identity = manifest.parts > 1 ? io::identity_of(manifest)
                                       : checksum_of(std::as_bytes(std::span(text)));
  } catch (const Error& error) {
    seen.fault = error.what();
  }
  return seen;
}

View look(const std::filesystem::path& out) {
  View view;
  const std::optional<io::LocalLevel> level = io::find_local(out);
  if (!level) return view;
  view.has_folder = true;
  const io::CheckpointStore store(level->folder);
  try {
    for (const auto& [step, folder] : store.aside())
      view.steps[step] = look_at(folder, /*is_aside=*/true);
    for (const Index step : store.steps())
      view.steps[step] = look_at(store.resolve(std::to_string(step)), /*is_aside=*/false);
    if (const auto best = store.best())
      view.best = io::CheckpointStore::step_of_folder(*best).value_or(-1);
  } catch (const Error& error) {
    log::warn("{}", error.what());
    view.fault = error.what();
  }
  return view;
}

json to_json(const View& view) {
  json steps = json::array();
  for (const auto& [step, seen] : view.steps)
    steps.push_back({step, seen.is_aside, seen.part, seen.parts, seen.identity, seen.fault});
  return {{"has_folder", view.has_folder},
          {"fault", view.fault},
          {"steps", std::move(steps)},
          {"best", view.best}};
}

View parse_view(const json& said) {
  View view{.has_folder = said.at("has_folder").get<bool>(),
            .fault = said.at("fault").get<std::string>(),
            .best = said.at("best").get<Index>()};
  for (const json& each : said.at("steps"))
    view.steps[each[0].get<Index>()] = {.is_aside = each[1].get<bool>(),
                                        .part = each[2].get<Index>(),
                                        .parts = each[3].get<Index>(),
                                        .identity = each[4].get<std::uint64_t>(),
                                        .fault = each[5].get<std::string>()};
  return view;
}

Views look_together(const std::filesystem::path& out, ranks::Exchange& exchange) {
  Views views;
  for (const json& said : gather(exchange, to_json(look(out)))) views.push_back(parse_view(said));
  return views;
}

/// The first rank that has each part of a step's checkpoint; nothing where they do not have the
/// same one, or a part is nowhere.
std::vector<Index> holders_of(Index step, const Views& views) {
  std::map<Index, Index> holders;  // by part
  const Seen* first = nullptr;
  for (std::size_t rank = 0; rank < views.size(); ++rank) {
    const auto seen = views[rank].steps.find(step);
    if (seen == views[rank].steps.end()) continue;
    if (first == nullptr) first = &seen->second;
    if (!seen->second.is_of_one(*first)) return {};
    holders.try_emplace(seen->second.part, static_cast<Index>(rank));
  }
  if (first == nullptr || std::ssize(holders) != first->parts) return {};
  std::vector<Index> ranks;
  for (const auto& [part, rank] : holders) ranks.push_back(rank);
  return ranks;
}

bool is_seen_by_all(Index step, const Views& views) {
  return std::ranges::all_of(views, [&](const View& view) { return view.steps.contains(step); });
}

/// Whether `is_it` holds for what some rank sees of a step.
template <class IsIt>
bool any(Index step, const Views& views, const IsIt& is_it) {
  return std::ranges::any_of(views, [&](const View& view) {
    const auto seen = view.steps.find(step);
    return seen != view.steps.end() && is_it(seen->second);
  });
}
bool is_aside(Index step, const Views& views) {
  return any(step, views, [](const Seen& seen) { return seen.is_aside; });
}
bool is_damaged(Index step, const Views& views) {
  return any(step, views, [](const Seen& seen) { return !seen.fault.empty(); });
}

/// Those that any rank sees, descending.
std::vector<Index> steps_of(const Views& views) {
  std::set<Index> steps;
  for (const View& view : views)
    for (const auto& [step, seen] : view.steps) steps.insert(step);
  return {steps.rbegin(), steps.rend()};
}

/// Brings a checkpoint to the run's folder, on each rank: the manifest from the first of those that
/// have a part, and what each of them has. Throws AgreedError where that fails.
void bring_together(Index step, const Views& views, const LaunchOptions& options,
                    ranks::Exchange& exchange) {
  const std::vector<Index> holders = holders_of(step, views);
  const auto first = static_cast<std::size_t>(holders.front());
  const Index rank = exchange.rank();
  const bool has_part = std::ranges::find(holders, rank) != holders.end();
  std::optional<storage::Engine> engine;
  io::CheckpointStore to(options.out);
  std::optional<io::CheckpointStore> from;
  std::optional<io::CheckpointStore::Staging> staging;
  std::optional<io::CheckpointManifest> whole;
  const auto together = [&](bool takes_part, const std::function<void()>& work) {
    do_together(exchange, takes_part, work);
  };
  std::string text;
  together(has_part || rank == 0, [&] {
    engine.emplace();
    if (!has_part) return;
    const std::optional<io::LocalLevel> level = io::find_local(options.out);
    expect(level.has_value(), "train.checkpoint_local: its folder is gone");
    from.emplace(level->folder);
    if (rank == holders.front())
      text = io::to_text(io::read_manifest(from->resolve(std::to_string(step))));
  });
  text = ranks::gather_texts(exchange, text)[first];
  const io::CheckpointManifest part = io::parse_manifest(text, "the manifest of a part");
  together(rank == 0, [&] {
    whole = io::in_one_folder(part);
    // The run has not gone back yet.
    to.keep_links();
    staging.emplace(checkpoint::begin_copy(*engine, to, *whole));
  });
  together(has_part, [&] {
    checkpoint::copy_part(*engine, *from, to, step, io::identity_of(part), {}, [](Index) {});
  });
  together(rank == 0, [&] {
    io::write_manifest(staging->path(), *whole);
    staging->commit(/*mark_best=*/views[first].best == step, /*prunes=*/false);
  });
  together(true, [&] {
    const auto sees_it = [&] { return std::ranges::count(to.steps(), step) > 0; };
    expect(look_for(sees_it), "{}: rank {} does not see the checkpoint of step {} there",
           options.out.string(), rank, step);
  });
}

/// Before step `below`, the step that a run which goes on from what --resume names would take, if
/// not all ranks see it, and the run's folder has none that does; nullopt: there is none.
std::optional<Index> find_unseen(const LaunchOptions& options, const Views& views, Index below) {
  if (!options.resume || options.dry_run) return std::nullopt;
  const bool takes_last = *options.resume == "auto" || *options.resume == "last";
  const io::CheckpointStore shared(options.out);
  for (const Index step : steps_of(views)) {
    const bool is_wanted =
        takes_last ? !is_aside(step, views) : std::to_string(step) == *options.resume;
    if (step >= below || !is_wanted || is_damaged(step, views) || holders_of(step, views).empty())
      continue;
    const bool is_there = takes_last ? shared.named_last().value_or(-1) >= step
                                     : std::ranges::count(shared.steps(), step) > 0;
    return is_there || is_seen_by_all(step, views) ? std::nullopt : std::optional(step);
  }
  return std::nullopt;
}

/// bring_together() before there is a lock of the run's folder. With --resume auto only a warning
/// where that fails; whether it is there.
bool bring_unseen(Index step, const Views& views, const LaunchOptions& options,
                  ranks::Exchange& exchange) {
  const bool says = exchange.rank() == 0;
  std::unique_ptr<io::RunLock> lock;
  do_together(exchange, says, [&] { lock = lock_output(options); });
  if (says)
    log::info("step {}: not all nodes have a part of it: copying it to {} first", step,
              options.out.string());
  try {
    bring_together(step, views, options, exchange);
    return true;
  } catch (const ranks::AgreedError& error) {
    if (*options.resume != "auto") throw;
    if (says) log::warn("{}; step {} is not taken from train.checkpoint_local", error.what(), step);
    return false;
  }
}

/// Whether there is a checkpoint of the step, as far as one can see: what one of the nodes that are
/// here lacks was never committed.
bool may_be_whole(Index step, const Views& views) {
  return !holders_of(step, views).empty() || std::ranges::all_of(views, [&](const View& view) {
    return !view.has_folder || view.steps.contains(step);
  });
}

/// Of damage, and of parts that are elsewhere, in steps that are later than all of `taken`.
void warn_of_others(const Views& views, const std::set<Index>& taken) {
  for (const Index step : steps_of(views)) {
    if (!taken.empty() && step <= *taken.rbegin()) return;
    for (const View& view : views)
      if (const auto seen = view.steps.find(step);
          seen != view.steps.end() && !seen->second.fault.empty())
        log::warn("{}; step {} is not taken from train.checkpoint_local", seen->second.fault, step);
    if (is_aside(step, views) || is_damaged(step, views) || !may_be_whole(step, views)) continue;
    return log::warn(
        "step {} is not taken from train.checkpoint_local: a part of it is on a node that is not "
        "here, or was lost",
        step);
  }
}

std::string leftovers_text(const LaunchOptions& options, const Views& views) {
  const std::string record = (options.out / "local.json").string();
  for (const View& view : views)
    if (!view.fault.empty())
      return fmt::format("{}; mend it, or remove {} to begin anew", view.fault, record);
  for (const Index step : steps_of(views)) {
    const bool is_of_use = is_damaged(step, views) || may_be_whole(step, views);
    if (is_of_use && !is_aside(step, views))
      return fmt::format(
          "train.checkpoint_local: there are parts of step {} of this run, and others are damaged, "
          "on nodes that are not here, or could not be copied: start on the nodes that it ran on, "
          "with room in {}, or remove {} to begin anew",
          step, options.out.string(), record);
  }
  return "";
}

}  // namespace

std::vector<json> gather(ranks::Exchange& exchange, const json& mine) {
  std::vector<json> all;
  for (const std::string& text :
       ranks::gather_texts(exchange, mine.dump(-1, ' ', false, json::error_handler_t::replace)))
    all.push_back(
        parse_json_object(text, "what a rank says", "start all ranks with the same program"));
  return all;
}

void do_together(ranks::Exchange& exchange, bool takes_part, const std::function<void()>& work) {
  const std::string fault =
      ranks::first_text(&exchange, takes_part ? checkpoint::fault_of(work) : std::string());
  if (!fault.empty()) throw ranks::AgreedError(fault);
}

void agree_on_local_steps(LaunchOptions& options, ranks::Exchange* exchange) {
  if (exchange == nullptr) {
    const Views views{look(options.out)};
    options.local_leftovers = leftovers_text(options, views);
    return;
  }
  const Views views = look_together(options.out, *exchange);
  const bool says = exchange->rank() == 0;
  options.local_leftovers = leftovers_text(options, views);
  Index below = std::numeric_limits<Index>::max();
  while (true) {
    // The same on all: what rank 0 sees of the run's folder.
    const Index unseen = says ? find_unseen(options, views, below).value_or(-1) : -1;
    const auto step = gather(*exchange, {{"step", unseen}}).front().at("step").get<Index>();
    if (step < 0 || bring_unseen(step, views, options, *exchange)) break;
    below = step;
  }
  std::set<Index> taken;
  std::set<Index> known;
  for (const Index step : steps_of(views)) {
    if (holders_of(step, views).empty()) continue;
    known.insert(step);
    const bool is_named = options.resume == std::to_string(step);
    const bool are_alike = std::ranges::all_of(views, [&](const View& view) {
      return view.steps.contains(step) && view.steps.at(step).is_aside == is_aside(step, views);
    });
    if (are_alike || (is_named && is_seen_by_all(step, views))) taken.insert(step);
  }
  if (says) warn_of_others(views, known);
  options.local_steps = std::move(taken);
}

void take_whole(const train::Trainer& trainer, const LaunchOptions& options,
                ranks::Exchange* exchange, std::optional<train::CheckpointReader>& checkpoint) {
  if (exchange == nullptr || checkpoint->manifest().parts == 1) return;
  const bool is_here = checkpoint->is_here(trainer.parameters(), trainer.optimizer());
  if (ranks::first_text(exchange, is_here ? "" : "elsewhere").empty()) return;
  const Index step = checkpoint->manifest().step;
  const Views views = look_together(options.out, *exchange);
  const std::vector<Index> holders = holders_of(step, views);
  const bool has_all = !holders.empty() &&
                       views[static_cast<std::size_t>(holders.front())].steps.at(step).identity ==
                           io::identity_of(checkpoint->manifest());
  do_together(*exchange, true, [&] {
    expect(has_all,
           "{}: ranks own what is on the disk of another node: resume on all nodes that wrote it, "
           "or from a checkpoint in --out",
           checkpoint->folder().string());
  });
  const bool says = exchange->rank() == 0;
  // A run that ended has brought it there.
  bool is_there = false;
  do_together(*exchange, says, [&] {
    const io::CheckpointStore shared(options.out);
    is_there = std::ranges::count(shared.steps(), step) > 0 &&
               io::read_manifest(shared.resolve(std::to_string(step))) ==
                   io::in_one_folder(checkpoint->manifest());
  });
  if (!gather(*exchange, {{"is_there", is_there}}).front().at("is_there").get<bool>()) {
    if (says)
      log::info("step {}: ranks own other parts than those that wrote it: copying it to {} first",
                step, options.out.string());
    bring_together(step, views, options, *exchange);
  }
  std::optional<train::CheckpointReader> whole;
  do_together(*exchange, true, [&] {
    whole.emplace(io::CheckpointStore(options.out).resolve(std::to_string(step)));
  });
  checkpoint = std::move(whole);
}

}  // namespace dos::launch
