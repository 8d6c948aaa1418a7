// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_place.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "platform/node_topology.hpp"
#include "platform/topology.hpp"
#include "rt/cuda.hpp"
#include "rt/cuda_memory.hpp"
#include "rt/device.hpp"

namespace dos::launch {
namespace {

using platform::RankResources;

/// "0 1 2|0000:17:00.0"
std::string to_text(const RankResources& resources) {
  return fmt::format("{}|{}", fmt::join(resources.cores, " "), fmt::join(resources.gpus, " "));
}

template <class T>
std::vector<T> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<T>(stream), {}};
}

RankResources from_text(const std::string& text) {
  const std::size_t bar = text.find('|');
  require(bar != std::string::npos, "the text has both parts");
  return {.cores = words<Index>(text.substr(0, bar)),
          .gpus = words<std::string>(text.substr(bar + 1))};
}

std::vector<Index> device_numbers(const std::vector<std::string>& chosen) {
  const std::vector<std::string> all = rt::cuda_bus_ids();
  std::vector<Index> numbers;
  for (const std::string& bus : chosen)
    numbers.push_back(std::ranges::find(all, bus) - all.begin());
  return numbers;
}

bool has_several_numa_nodes(const platform::Node& node) {
  return std::ranges::any_of(
      node.cores, [&](const platform::Core& core) { return core.numa != node.cores.front().numa; });
}

/// StarPU would count on nearly all memory of a GPU on each of the ranks that use it.
void share_gpus(const platform::Binding& binding, rt::SessionConfig& session) {
  const std::vector<Index> bytes = rt::cuda_memory_bytes();
  Index smallest = std::numeric_limits<Index>::max();
  for (const Index device : device_numbers(binding.gpus))
    smallest = std::min(smallest, bytes.at(static_cast<std::size_t>(device)));
  session.device_memory =
      platform::memory_share(smallest, binding.gpu_sharers, session.device_memory);
  log::info("{} ranks share GPU {}: each takes {} of its memory", binding.gpu_sharers,
            fmt::join(binding.gpus, ", "), format_bytes(session.device_memory));
}

}  // namespace

RankPlace find_rank_place() {
  const auto topology = platform::NodeTopology::of_this_machine();
  const RankResources mine{.cores = topology.bound_cores(), .gpus = rt::cuda_bus_ids()};
  std::vector<RankResources> ranks;
  for (const std::string& text : platform::exchange_texts(to_text(mine), platform::Among::kNode))
    ranks.push_back(from_text(text));
  RankPlace place{.host = platform::host_name(),
                  .position = platform::rank_position(),
                  .node = topology.node(),
                  .binding = {}};
  std::set<std::string> visible;
  for (const RankResources& rank : ranks) visible.insert(rank.gpus.begin(), rank.gpus.end());
  place.visible_gpus = std::ssize(visible);
  place.binding = bind_rank(place.node, ranks, place.position.local_rank,
                            /*communicates=*/place.position.size > 1);
  return place;
}

std::string describe(const RankPlace& place) {
  const platform::RankPosition& at = place.position;
  return fmt::format("rank {} of {} on {} ({} of {} there): {}", at.rank, at.size, place.host,
                     at.local_rank, at.local_size, describe(place.binding, place.node));
}

std::string topology_text(const RankPlace& place) {
  std::string mine = describe(place) + "\n";
  if (place.position.local_rank == 0)
    for (const std::string& warning : place.binding.warnings)
      mine += fmt::format("warning: {}: {}\n", place.host, warning);
  std::string all;
  for (const std::string& text : platform::exchange_texts(mine, platform::Among::kAll)) all += text;
  return place.position.rank == 0 ? all : "";
}

void keep_from_workers(const RankPlace& place, pthread_t thread) {
  const std::vector<Index> spare = platform::spare_cores(place.binding, rt::worker_cores());
  if (spare.empty()) return;
  if (!platform::NodeTopology::of_this_machine().bind_thread(thread, spare))
    log::warn("the system does not bind the thread for communication to core {}",
              platform::ranges(spare));
}

void apply(const RankPlace& place, Index workers, rt::SessionConfig& session) {
  const platform::Binding& binding = place.binding;
  const Index cores = std::ssize(binding.cores);
  if (place.position.local_rank == 0)
    for (const std::string& warning : binding.warnings) log::warn("{}", warning);
  expect(binding.origin != platform::Origin::kLauncher || workers <= cores,
         "train.workers = {}, but this rank is bound to {} cores ({}): lower it, or ask for more "
         "(srun --cpus-per-task)",
         workers, cores, platform::ranges(binding.cores));
  const Index devices = session.cuda_workers;
  if (devices != 0 && binding.gpu_sharers > 1) share_gpus(binding, session);
  if (devices != 0 && std::ssize(binding.gpus) < std::ssize(rt::cuda_bus_ids())) {
    expect(devices <= std::ssize(binding.gpus),
           "train.cuda_devices = {}, but this rank has {} of the node's GPUs: lower it, or start "
           "fewer ranks on a node",
           devices, binding.gpus.size());
    session.cuda_devices = device_numbers(binding.gpus);
    if (devices < 0) session.cuda_workers = std::ssize(binding.gpus);
  }
  const auto topology = platform::NodeTopology::of_this_machine();
  if (devices != 0 && !binding.memory.empty() && has_several_numa_nodes(place.node) &&
      !topology.prefer_memory(binding.memory))
    log::warn("the system does not let this process choose NUMA node {} of its GPUs for memory",
              platform::ranges(binding.memory));
  if (binding.origin != platform::Origin::kWhole) log::info("{}", describe(place));
  if (binding.origin == platform::Origin::kDivided) {
    if (workers > cores) {
      log::warn(
          "train.workers = {} on each of {} ranks of this node, {} cores a rank: workers "
          "share cores; lower it, or leave it 0",
          workers, place.position.local_size, cores);
      return;
    }
    topology.bind_process(binding.cores);
  }
  if (binding.has_progress_core && workers == 0) session.reserved_cores = 1;
}

}  // namespace dos::launch
