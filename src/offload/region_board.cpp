// SPDX-License-Identifier: Apache-2.0
#include "offload/region_board.hpp"

#include <limits>

#include "base/error.hpp"

namespace dos::offload {

RegionBoard::RegionBoard(const std::vector<Index>& capacity) : disks_(capacity.size()) {
  for (std::size_t i = 0; i < capacity.size(); ++i)
    for (Index number = capacity[i]; number > 0; --number) disks_[i].free.push_back(number - 1);
}

double RegionBoard::mean_rate() const {
  double sum = 0;
  Index known = 0;
  for (const Disk& disk : disks_) {
    if (!disk.rate) continue;
    sum += *disk.rate;
    ++known;
  }
  return known == 0 ? 1.0 : sum / static_cast<double>(known);
}

double RegionBoard::load_with_one_more(std::size_t disk, const std::optional<Region>& current,
                                       double unknown_rate) const {
  const bool is_here = current && static_cast<std::size_t>(current->disk) == disk;
  const auto regions = static_cast<double>(disks_[disk].used + (is_here ? 0 : 1));
  return regions / disks_[disk].rate.value_or(unknown_rate);
}

void RegionBoard::forgive() {
  Index all = 0;
  for (const Disk& disk : disks_) all += disk.used;
  for (Disk& disk : disks_)
    if (disk.used == 0 && disk.rate && all > 0)
      *disk.rate *= 1 + kForgiveness / static_cast<double>(all);
}

std::optional<Region> RegionBoard::take(const std::optional<Region>& current) {
  forgive();
  const double unknown_rate = mean_rate();
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::size_t best = kNone;
  double best_load = 0;
  for (std::size_t i = 0; i < disks_.size(); ++i) {
    if (disks_[i].free.empty()) continue;
    double load = load_with_one_more(i, current, unknown_rate);
    if (current && static_cast<std::size_t>(current->disk) == i) load /= kHysteresis;
    if (best != kNone && load >= best_load) continue;
    best = i;
    best_load = load;
  }
  if (best == kNone) return std::nullopt;
  return take_on(static_cast<Index>(best));
}

std::optional<Region> RegionBoard::take_on(Index disk) {
  Disk& each = disks_[static_cast<std::size_t>(disk)];
  if (each.free.empty()) return std::nullopt;
  const Region region{.disk = disk, .number = each.free.back()};
  each.free.pop_back();
  ++each.used;
  return region;
}

void RegionBoard::give_back(const Region& region) {
  Disk& disk = disks_[static_cast<std::size_t>(region.disk)];
  require(disk.used > 0, "a region that is in use");
  --disk.used;
  disk.free.push_back(region.number);
}

void RegionBoard::begin(Index disk, double now) {
  Disk& each = disks_[static_cast<std::size_t>(disk)];
  if (each.under_way++ == 0) each.since = now;
}

void RegionBoard::end(Index disk, Index bytes, double now) {
  Disk& each = disks_[static_cast<std::size_t>(disk)];
  require(each.under_way > 0, "a transfer that has begun");
  --each.under_way;
  each.bytes += bytes;
  each.busy += now - each.since;
  each.since = now;
  if (each.busy < kSampleSeconds) return;
  const double rate = static_cast<double>(each.bytes) / each.busy;
  each.rate = each.rate ? (*each.rate + rate) / 2 : rate;
  each.busy = 0;
  each.bytes = 0;
}

}  // namespace dos::offload
