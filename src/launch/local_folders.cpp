// SPDX-License-Identifier: Apache-2.0
#include "launch/local_folders.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "io/checkpoint_levels.hpp"
#include "launch/checkpoint_parts.hpp"
#include "launch/look_for.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/gather.hpp"

namespace dos::launch {
namespace {

using nlohmann::json;

/// Who has locked the folder, as far as this rank sees; "" without it.
std::string lock_text(const std::filesystem::path& folder) {
  try {
    return read_text(folder / io::kLockName);
  } catch (const Error&) {
    return "";
  }
}

/// By the texts of their locks, the rank whose folder this rank has, too.
std::optional<Index> find_holder(const std::filesystem::path& folder,
                                 const std::vector<std::string>& holders) {
  std::optional<Index> holder;
  const auto sees_one = [&] {
    const std::string text = lock_text(folder);
    const auto found = std::ranges::find(holders, text);
    if (!text.empty() && found != holders.end()) holder = found - holders.begin();
    return holder.has_value();
  };
  static_cast<void>(look_for(sees_one));
  return holder;
}

/// What ranks say in turn, counted from 0 on in the order in which it is said first.
std::vector<Index> counted(const std::vector<Index>& said) {
  std::map<Index, Index> numbers;
  std::vector<Index> result;
  for (const Index each : said)
    result.push_back(numbers.try_emplace(each, std::ssize(numbers)).first->second);
  return result;
}

/// Where the run starts, as rank 0 sees it.
io::LocalStart start_of(const LaunchOptions& options,
                        const std::optional<train::CheckpointReader>& checkpoint) {
  const io::CheckpointLevels levels(options.out, options.local_steps);
  if (!checkpoint || !levels.owns(checkpoint->folder())) return io::LocalStart::kAnew;
  const Index step = checkpoint->manifest().step;
  // Also of those that nobody looks at.
  std::vector<Index> steps = levels.shared().steps();
  if (const std::optional<io::LocalLevel> local = io::find_local(options.out))
    for (const Index each : io::CheckpointStore(local->folder).steps()) steps.push_back(each);
  const bool is_newest = std::ranges::all_of(steps, [&](Index each) { return each <= step; });
  const bool goes_on = is_newest && !io::CheckpointStore::is_aside(checkpoint->folder());
  return goes_on ? io::LocalStart::kGoesOn : io::LocalStart::kGoesBack;
}

}  // namespace

LocalFolders lock_local_folders(const LaunchOptions& options, const config::TrainConfig& config,
                                ranks::Exchange* exchange) {
  LocalFolders folders;
  const std::string& local = config.train.checkpoint_local;
  if (local.empty()) return folders;
  const auto lock = [&] {
    folders.lock = std::make_unique<io::RunLock>(io::lock_local(local, options.out));
  };
  if (exchange == nullptr) {
    lock();
    return folders;
  }
  const std::filesystem::path folder = io::local_folder(local, options.out);
  const Index rank = exchange->rank();
  const std::vector<std::string> names = ranks::gather_texts(*exchange, folder.string());
  for (std::size_t each = 0; each < names.size(); ++each)
    if (names[each] != names.front())
      throw ranks::AgreedError(
          fmt::format("train.checkpoint_local = {}: its folder is {} on rank 0 and {} on rank {}: "
                      "name it, and --out, by a path that is the same on all nodes",
                      local, names.front(), names[each], each));
  if (rank == 0) lock();
  const std::string first =
      ranks::gather_texts(*exchange, rank == 0 ? lock_text(folder) : "").front();
  std::string fault;
  if (rank != 0 && lock_text(folder) != first) {
    try {
      lock();
    } catch (const Error& error) {
      // Of another rank of this node, most likely.
      fault = error.what();
    }
  }
  const std::vector<std::string> holders =
      ranks::gather_texts(*exchange, folders.lock ? lock_text(folder) : "");
  const std::optional<Index> holder = find_holder(folder, holders);
  if (!holder && fault.empty())
    fault = fmt::format("train.checkpoint_local = {}: its lock is not seen any more", local);
  std::vector<Index> said;
  const std::vector<json> all =
      gather(*exchange, {{"holder", holder.value_or(-1)}, {"fault", holder ? "" : fault}});
  for (std::size_t each = 0; each < all.size(); ++each) {
    said.push_back(all[each].at("holder").get<Index>());
    if (said.back() < 0)
      throw ranks::AgreedError(
          fmt::format("rank {}: {}", each, all[each].at("fault").get<std::string>()));
  }
  folders.nodes = checkpoint::NodeFolders(counted(said));
  return folders;
}

void take_local_folders(const LaunchOptions& options, const config::TrainConfig& config,
                        const std::optional<train::CheckpointReader>& checkpoint,
                        const LocalFolders& folders, ranks::Exchange* exchange) {
  const std::string& local = config.train.checkpoint_local;
  const bool writes = exchange == nullptr || exchange->rank() == 0;
  if (local.empty()) {
    if (writes) io::leave_unseen_local(options.out);
    return;
  }
  if (exchange == nullptr) {
    const io::LocalStart start = start_of(options, checkpoint);
    expect(start != io::LocalStart::kAnew || options.local_leftovers.empty(), "{}",
           options.local_leftovers);
    const std::string line = io::line_of(local, options.out, start);
    io::announce_local(local, options.out, line);
    io::take_local(local, options.out, start, line);
    return io::note_local(local, options.out, line);
  }
  const bool leads = folders.nodes.leads(exchange->rank());
  const bool lacks_it = leads && !io::find_local(options.out);
  const bool has_all = ranks::first_text(exchange, lacks_it ? "lacks it" : "").empty();
  json said = json::object();
  if (writes) {
    const io::LocalStart start = start_of(options, checkpoint);
    said = {{"start", static_cast<int>(start)},
            {"line", io::line_of(local, options.out, start, has_all)}};
    io::announce_local(local, options.out, said.at("line").get<std::string>());
  }
  said = gather(*exchange, said).front();
  const auto start = static_cast<io::LocalStart>(said.at("start").get<int>());
  const auto line = said.at("line").get<std::string>();
  if (start == io::LocalStart::kAnew && !options.local_leftovers.empty())
    throw ranks::AgreedError(options.local_leftovers);
  do_together(*exchange, leads, [&] { io::take_local(local, options.out, start, line); });
  if (writes) io::note_local(local, options.out, line);
}

}  // namespace dos::launch
