// SPDX-License-Identifier: Apache-2.0
#include "platform/binding.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.hpp"

namespace dos::platform {
namespace {

using Cores = std::vector<Index>;

std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

Index numa_of_core(const Node& node, Index number) {
  const auto core = std::ranges::find(node.cores, number, &Core::number);
  return core == node.cores.end() ? -1 : core->numa;
}

bool all_equal(std::span<const RankResources> ranks, auto member) {
  return std::ranges::all_of(
      ranks, [&](const RankResources& rank) { return rank.*member == ranks.front().*member; });
}

/// `cores` in the order of NUMA nodes, in near-equal parts; one core each, in turn, when there are
/// fewer cores than ranks.
Cores part_of(const Node& node, Cores cores, Index me, Index ranks) {
  std::ranges::stable_sort(cores, {},
                           [&](Index core) { return std::pair(numa_of_core(node, core), core); });
  const Index count = std::ssize(cores);
  if (count < ranks) return {cores[at(me % count)]};
  const auto begin = cores.begin() + me * count / ranks;
  return {begin, cores.begin() + (me + 1) * count / ranks};
}

Index shared_cores(std::span<const RankResources> ranks, const Cores& mine, Index me) {
  Index shared = 0;
  for (const Index core : mine) {
    bool taken = false;
    for (Index other = 0; other < std::ssize(ranks); ++other)
      taken = taken || (other != me && std::ranges::count(ranks[at(other)].cores, core) > 0);
    shared += taken ? 1 : 0;
  }
  return shared;
}

/// Everyone's GPUs, by rank: those on a rank's own NUMA node first, then what is left.
std::vector<std::vector<std::string>> divide_gpus(const Node& node,
                                                  const std::vector<std::string>& gpus,
                                                  const std::vector<Index>& homes) {
  const Index each = std::max<Index>(1, std::ssize(gpus) / std::ssize(homes));
  std::vector<std::vector<std::string>> parts(homes.size());
  std::vector<Index> users(gpus.size(), 0);
  for (const bool only_near : {true, false}) {
    for (std::size_t rank = 0; rank < homes.size(); ++rank) {
      const auto cost = [&](std::size_t gpu) {
        return std::pair(users[gpu], node.numa_of_gpu(gpus[gpu]) != homes[rank]);
      };
      while (std::ssize(parts[rank]) < each) {
        std::size_t best = 0;
        for (std::size_t gpu = 1; gpu < gpus.size(); ++gpu)
          if (cost(gpu) < cost(best)) best = gpu;
        if (only_near && cost(best) != std::pair(Index{0}, false)) break;
        parts[rank].push_back(gpus[best]);
        ++users[best];
      }
    }
  }
  return parts;
}

/// How many ranks use the one of rank `me`'s GPUs that most use.
Index most_users(const std::vector<std::vector<std::string>>& gpus_of_ranks, Index me) {
  Index most = 1;
  for (const std::string& gpu : gpus_of_ranks[at(me)])
    most = std::max(most, Index{std::ranges::count_if(gpus_of_ranks, [&](const auto& theirs) {
                      return std::ranges::count(theirs, gpu) > 0;
                    })});
  return most;
}

void warn_about_gpus(Index gpus, Index ranks, Binding& binding) {
  if (gpus < ranks)
    binding.warnings.push_back(fmt::format("{} ranks share {} GPU{}: start one rank a GPU", ranks,
                                           gpus, gpus == 1 ? "" : "s"));
  else if (gpus % ranks != 0)
    binding.warnings.push_back(
        fmt::format("{} of {} GPUs are not used: start a number of ranks that divides them",
                    gpus % ranks, gpus));
}

Binding bind_cores(const Node& node, std::span<const RankResources> ranks, Index me) {
  Binding binding;
  const Cores& given = ranks[at(me)].cores;
  const Index count = std::ssize(ranks);
  binding.cores = given;
  if (count == 1) {
    binding.origin = given.size() == node.cores.size() ? Origin::kWhole : Origin::kLauncher;
  } else if (all_equal(ranks, &RankResources::cores)) {
    binding.origin = Origin::kDivided;
    binding.cores = part_of(node, given, me, count);
    if (std::ssize(given) < count)
      binding.warnings.push_back(fmt::format(
          "{} ranks share {} core{}: start at most as many ranks as cores, or ask for more "
          "(srun --cpus-per-task)",
          count, given.size(), given.size() == 1 ? "" : "s"));
  } else {
    binding.origin = Origin::kLauncher;
    if (const Index shared = shared_cores(ranks, given, me); shared > 0)
      binding.warnings.push_back(fmt::format(
          "{} of this rank's {} cores are bound to other ranks too: see srun --cpu-bind, or "
          "mpiexec -bind-to",
          shared, given.size()));
  }
  return binding;
}

Index home_of(const Node& node, const Cores& cores) {
  return numa_of_core(node, cores.front());
}

void take_gpus(const Node& node, std::span<const RankResources> ranks, Index me, Binding& binding) {
  std::vector<std::vector<std::string>> all;
  for (const RankResources& rank : ranks) all.push_back(rank.gpus);
  const std::vector<std::string>& given = ranks[at(me)].gpus;
  if (ranks.size() > 1 && !given.empty() && all_equal(ranks, &RankResources::gpus)) {
    std::vector<Index> homes;
    for (Index rank = 0; rank < std::ssize(ranks); ++rank)
      homes.push_back(home_of(node, bind_cores(node, ranks, rank).cores));
    warn_about_gpus(std::ssize(given), std::ssize(ranks), binding);
    all = divide_gpus(node, given, homes);
  }
  binding.gpus = all[at(me)];
  binding.gpu_sharers = most_users(all, me);
}

}  // namespace

Index Node::numa_of_gpu(const std::string& bus) const {
  const auto gpu = std::ranges::find(gpus, bus, &Gpu::bus);
  return gpu == gpus.end() ? -1 : gpu->numa;
}

Index Binding::workers() const {
  return std::max<Index>(1, std::ssize(cores) - std::ssize(gpus) - (has_progress_core ? 1 : 0));
}

Binding bind_rank(const Node& node, std::span<const RankResources> ranks, Index me,
                  bool communicates) {
  require(me >= 0 && me < std::ssize(ranks), "the rank is one of the node's");
  for (const RankResources& rank : ranks) require(!rank.cores.empty(), "a rank has a core");
  Binding binding = bind_cores(node, ranks, me);
  take_gpus(node, ranks, me, binding);
  const Index beside_gpus = std::ssize(binding.cores) - std::ssize(binding.gpus);
  if (beside_gpus < 1)
    binding.warnings.push_back(
        fmt::format("{} cores for {} GPUs: each GPU's driver needs a core, and CPU workers at "
                    "least one (srun --cpus-per-task)",
                    binding.cores.size(), binding.gpus.size()));
  binding.has_progress_core = communicates && beside_gpus >= kCoresForProgress;
  std::set<Index> numa;
  for (const Index core : binding.cores) numa.insert(numa_of_core(node, core));
  binding.numa.assign(numa.begin(), numa.end());
  std::set<Index> memory;
  for (const std::string& gpu : binding.gpus) memory.insert(node.numa_of_gpu(gpu));
  memory.erase(-1);
  binding.memory.assign(memory.begin(), memory.end());
  return binding;
}

Index memory_share(Index device_bytes, Index sharers, Index wanted) {
  require(sharers >= 1, "at least one rank uses the device");
  const Index share = device_bytes / 10 * 9 / sharers;
  return wanted > 0 ? std::min(wanted, share) : share;
}

std::vector<Index> spare_cores(const Binding& binding, const std::vector<Index>& worker_cores) {
  std::vector<Index> spare;
  std::ranges::copy_if(binding.cores, std::back_inserter(spare),
                       [&](Index core) { return std::ranges::count(worker_cores, core) == 0; });
  return spare;
}

std::string ranges(const std::vector<Index>& numbers) {
  if (numbers.empty()) return "none";
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    parts.push_back(first == last ? fmt::format("{}", numbers[first])
                                  : fmt::format("{}-{}", numbers[first], numbers[last]));
    first = last + 1;
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string describe(const Binding& binding, const Node& node) {
  const auto numa = [](const std::vector<Index>& nodes) {
    return fmt::format("NUMA node{} {}", nodes.size() > 1 ? "s" : "", ranges(nodes));
  };
  std::string text =
      fmt::format("cores {} ({} for workers", ranges(binding.cores), binding.workers());
  if (!binding.gpus.empty()) text += fmt::format(", {} for GPUs", binding.gpus.size());
  if (binding.has_progress_core) text += ", 1 for communication";
  text += fmt::format("), {}", numa(binding.numa));
  for (const std::string& gpu : binding.gpus) {
    const Index near = node.numa_of_gpu(gpu);
    text += fmt::format(", GPU {} ({})", gpu, near < 0 ? "NUMA node unknown" : numa({near}));
  }
  if (binding.gpu_sharers > 1) text += fmt::format(", shared by {} ranks", binding.gpu_sharers);
  switch (binding.origin) {
    case Origin::kWhole:
      return text + ", alone on the node";
    case Origin::kLauncher:
      return text + ", bound by the launcher";
    case Origin::kDivided:
      return text + ", divided among the node's ranks";
  }
  return text;
}

}  // namespace dos::platform
