// SPDX-License-Identifier: Apache-2.0
#include "planner/home_choice.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace dos::planner {
namespace {

Index whole(units::Bytes bytes) {
  return static_cast<Index>(std::max(0.0, bytes.value()));
}

/// What split_homes() is asked, but for host memory.
class Splitter {
 public:
  Splitter(const sched::Problem& problem, const std::vector<units::Bytes>& gpus, Index disks)
      : problem_(problem), gpus_(gpus), disks_(disks) {
    for (Index i = 0; i < std::ssize(problem.subgroups); ++i)
      sizes_.push_back(whole(problem.away_bytes(i)));
    all_ = std::accumulate(sizes_.begin(), sizes_.end(), Index{0});
  }

  [[nodiscard]] Index all() const { return all_; }
  [[nodiscard]] Index largest() const { return *std::ranges::max_element(sizes_); }
  /// Beside a window of so many updates of the largest.
  [[nodiscard]] shape::HomeSplit split(Index host, double window) const {
    const sched::UpdateCost& cost = problem_.cost;
    const units::Bytes update =
        units::Params(static_cast<double>(problem_.largest())) * cost.held();
    // What an update needs besides comes to the GPU, too; what stays has one bank.
    const units::BytesPerParam held =
        cost.held() - cost.state * static_cast<double>(cost.banks - 1);
    std::vector<Index> devices;
    for (const units::Bytes free : gpus_)
      devices.push_back(whole((free - update * window) * (cost.away() / held)));
    return shape::split_homes(sizes_, problem_.rates.cpu_workers + problem_.gpus(),
                              {.host = host, .devices = std::move(devices), .disks = disks_});
  }

 private:
  const sched::Problem& problem_;
  const std::vector<units::Bytes>& gpus_;
  Index disks_;
  std::vector<Index> sizes_;
  Index all_ = 0;
};

constexpr std::array kWindows{sched::kUpdatesBesideKept, sched::kLeastUpdatesBesideKept};

}  // namespace

shape::HomeSplit split_states(const sched::Problem& problem, units::Bytes host,
                              const std::vector<units::Bytes>& gpus, Index disks) {
  const Splitter splitter(problem, gpus, disks);
  // What has no limit is more than all.
  const Index room =
      host.value() < static_cast<double>(splitter.all()) ? whole(host) : splitter.all();
  shape::HomeSplit split;
  // Of too little for slots the plan says so.
  if (room < shape::kLeastSlots * splitter.largest()) return split;
  for (const double window : kWindows) {
    split = splitter.split(room, window);
    if (split.on_disk.empty()) break;
  }
  return split;
}

void give_homes(const PlanSettings& settings, const std::vector<units::Bytes>& gpus,
                sched::Problem& problem) {
  const Splitter splitter(problem, gpus, std::ssize(problem.rates.tiers));
  const double room = problem.host_memory.value();
  const bool has_room_for_all = room >= static_cast<double>(splitter.all());
  const bool says_how_much = settings.state_memory.has_value();
  // Who names no disk is told of those that are needed.
  if (!says_how_much && settings.disks.empty() && has_room_for_all) return;
  // Of too little for slots the plan says so.
  if (!says_how_much && room < static_cast<double>(shape::kLeastSlots * splitter.largest())) return;
  shape::HomeSplit split;
  for (const double window : kWindows) {
    double host = says_how_much ? settings.state_memory->value() : 0;
    if (!says_how_much) {
      const shape::HomeSplit least = splitter.split(0, window);
      const auto slots = static_cast<double>(least.slots * least.slot_bytes);
      host = shape::memory_for_states(slots, room - slots);
    }
    split = splitter.split(whole(units::Bytes(host)), window);
    const auto slots = static_cast<double>(split.slots * split.slot_bytes);
    problem.host_memory = units::Bytes(std::max(host, slots));
    problem.slots.reset();
    if (split.on_disk.empty()) break;
    problem.slots = units::Bytes(slots);
  }
  if (!split.are_in_host_memory()) keep(split, problem);
}

void keep(const shape::HomeSplit& split, sched::Problem& problem) {
  for (std::size_t i = 0; i < split.device.size(); ++i) {
    problem.subgroups[i].kept_on = split.device[i];
    // Memory of its own has its size.
    if (split.device[i] >= 0) problem.subgroups[i].room = 0;
  }
}

}  // namespace dos::planner
