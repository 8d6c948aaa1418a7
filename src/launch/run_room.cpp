// SPDX-License-Identifier: Apache-2.0
#include "launch/run_room.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/json.hpp"
#include "fit/activation_fit.hpp"
#include "fit/stated_limits.hpp"
#include "launch/pass_rates.hpp"
#include "offload/disk_space.hpp"
#include "platform/memory_limits.hpp"
#include "ranks/gather.hpp"
#include "train/run_states.hpp"

namespace dos::launch {
namespace {

fit::Room planned_room(const config::TrainConfig& config, const rt::Session& session) {
  fit::Room room = fit::room_of(session);
  const Index gpus = std::max<Index>(1, config.train.cuda_devices);
  for (Index gpu = 0; gpu < gpus; ++gpu)
    room.devices.push_back(
        {.name = fmt::format("GPU {}, planned", gpu), .bytes = config.gpu_memory_bytes()});
  room.workers += gpus;
  return room;
}

}  // namespace

bool plans_gpus(const LaunchOptions& options, const config::TrainConfig& config,
                const rt::Session& session) {
  return options.dry_run && config.train.gpu_memory > 0 && config.train.cuda_devices != 0 &&
         session.cuda_workers() == 0;
}

fit::Room room_of_rank(const LaunchOptions& options, const train::Run& run, const RankPlace& place,
                       const rt::Session& session, bool says) {
  const config::TrainConfig& config = run.config;
  fit::Room room =
      plans_gpus(options, config, session) ? planned_room(config, session) : fit::room_of(session);
  // The other ranks of the node take as much.
  room.host_bytes /= place.position.local_size;
  fit::limit_host(config, platform::resident_memory(), room);
  const bool chooses = config.train.activations == "auto";
  if (chooses || options.explain)
    add_measured_rates(options.machines, config, place, session.scheduler(), says, room);
  if (chooses || options.explain) room.shared = shared_disks(config, options.out);
  if (chooses) room.disk = disk_room(run, room, place);
  return room;
}

std::vector<Index> free_on_disks(const train::Run& run, const RankPlace& place,
                                 ranks::Exchange* exchange) {
  const std::vector<offload::DiskRoom> rooms = offload::rooms_for_states(run.config.disks());
  const Index needed = rooms.empty() ? 0 : train::most_state_files(run);
  std::vector<std::uint64_t> devices;
  for (const offload::DiskRoom& room : rooms) devices.push_back(room.device);
  std::vector<std::string> texts{
      nlohmann::json{{"host", place.host}, {"devices", devices}, {"needed", needed}}.dump()};
  if (exchange != nullptr) texts = ranks::gather_texts(*exchange, texts.front());
  std::map<std::uint64_t, Index> needed_by_all;  // by file system
  for (const std::string& text : texts) {
    const nlohmann::json said =
        parse_json_object(text, "what a rank says", "start all ranks with the same program");
    if (said.at("host").get<std::string>() != place.host) continue;
    for (const std::uint64_t device : said.at("devices").get<std::set<std::uint64_t>>())
      needed_by_all[device] += said.at("needed").get<Index>();
  }
  std::vector<Index> free;
  for (const offload::DiskRoom& room : rooms) {
    const auto all = static_cast<double>(needed_by_all.at(room.device));
    const double part = needed == 0 ? 0 : static_cast<double>(needed) / all;
    free.push_back(static_cast<Index>(part * static_cast<double>(room.free)));
  }
  return free;
}

void expect_room_on_disks(const train::Run& run, const fit::Room& room, const RankPlace& place,
                          Index workers) {
  const Index states = train::expect_room_on_disks(run, workers);
  if (run.config.activation_plan().moved == 0) return;
  const std::vector<offload::DiskPlace> disks = run.config.activation_disks();
  offload::expect_activation_folders(disks);
  offload::expect_room_for_activations(
      disks,
      offload::left_for_activations(disks, run.config.disks(), states, place.position.local_size),
      fit::activations_on_disks(run, room));
}

}  // namespace dos::launch
