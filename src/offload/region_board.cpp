// SPDX-License-Identifier: Apache-2.0
#include "offload/region_board.hpp"

#include "base/error.hpp"

namespace dos::offload {

RegionBoard::RegionBoard(const std::vector<Index>& capacity, Index turns)
    : disks_(capacity.size()), share_(static_cast<std::size_t>(turns)) {
  for (std::size_t i = 0; i < capacity.size(); ++i) {
    disks_[i].capacity = capacity[i];
    for (Index number = capacity[i]; number > 0; --number) disks_[i].free.push_back(number - 1);
  }
  share();
}

std::optional<double> RegionBoard::rate(Index disk) const {
  double seconds = 0;
  double known = 0;
  for (const Cost& cost : disk_at(disk).costs) {
    if (!cost.seconds_a_byte) continue;
    seconds += *cost.seconds_a_byte;
    ++known;
  }
  if (known == 0) return std::nullopt;
  return known / seconds;
}

double RegionBoard::mean_rate() const {
  double sum = 0;
  Index known = 0;
  for (Index disk = 0; disk < std::ssize(disks_); ++disk) {
    const std::optional<double> one = rate(disk);
    if (!one) continue;
    sum += *one;
    ++known;
  }
  return known == 0 ? 1.0 : sum / static_cast<double>(known);
}

template <class HasRoom>
Index RegionBoard::least_burdened(const std::vector<Index>& counts, HasRoom has_room) const {
  Index best = -1;
  double best_burden = 0;
  for (Index disk = 0; disk < std::ssize(disks_); ++disk) {
    if (!has_room(disk)) continue;
    const double burden =
        static_cast<double>(counts[static_cast<std::size_t>(disk)] + 1) / disk_at(disk).shared_rate;
    if (best >= 0 && burden >= best_burden) continue;
    best = disk;
    best_burden = burden;
  }
  return best;
}

void RegionBoard::share() {
  // D'Hondt's method: it keeps the longest time of a disk short after each turn, so that shares are
  // even over them, too.
  std::vector<Index> counts(disks_.size());
  for (Index& disk : share_) {
    disk = least_burdened(counts, [&](Index each) {
      return counts[static_cast<std::size_t>(each)] < disk_at(each).capacity;
    });
    if (disk >= 0) ++counts[static_cast<std::size_t>(disk)];
  }
}

void RegionBoard::follow_rates() {
  const double unknown_rate = mean_rate();
  bool has_changed = false;
  for (Index disk = 0; disk < std::ssize(disks_); ++disk) {
    Disk& each = disks_[static_cast<std::size_t>(disk)];
    const double shown = rate(disk).value_or(unknown_rate);
    if (shown <= each.shared_rate * kHysteresis && shown * kHysteresis >= each.shared_rate)
      continue;
    each.shared_rate = shown;
    has_changed = true;
  }
  if (has_changed) share();
}

void RegionBoard::forgive() {
  Index all = 0;
  for (const Disk& disk : disks_) all += disk.used;
  if (all == 0) return;
  for (Disk& disk : disks_)
    for (Cost& cost : disk.costs)
      if (disk.used == 0 && cost.seconds_a_byte)
        *cost.seconds_a_byte /= 1 + kForgiveness / static_cast<double>(all);
}

std::optional<Region> RegionBoard::take(Index turn) {
  forgive();
  follow_rates();
  Index disk = share_[static_cast<std::size_t>(turn)];
  if (disk < 0 || disk_at(disk).free.empty()) {
    std::vector<Index> used;
    for (const Disk& each : disks_) used.push_back(each.used);
    disk = least_burdened(used, [&](Index each) { return !disk_at(each).free.empty(); });
  }
  if (disk < 0) return std::nullopt;
  return take_on(disk);
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

void RegionBoard::count_until(Disk& disk, double now) {
  Index under_way = 0;
  for (const Cost& cost : disk.costs) under_way += cost.under_way;
  for (Cost& cost : disk.costs)
    if (cost.under_way > 0)
      cost.busy +=
          (now - disk.since) * static_cast<double>(cost.under_way) / static_cast<double>(under_way);
  disk.since = now;
}

void RegionBoard::begin(Index disk, Direction direction, double now) {
  Disk& each = disks_[static_cast<std::size_t>(disk)];
  count_until(each, now);
  ++cost_of(each, direction).under_way;
}

void RegionBoard::end(Index disk, Direction direction, Index bytes, double now) {
  Disk& each = disks_[static_cast<std::size_t>(disk)];
  Cost& cost = cost_of(each, direction);
  require(cost.under_way > 0, "a transfer that has begun");
  count_until(each, now);
  --cost.under_way;
  cost.bytes += bytes;
  if (cost.busy < kSampleSeconds) return;
  const double seconds = cost.busy / static_cast<double>(cost.bytes);
  cost.seconds_a_byte = cost.seconds_a_byte ? (*cost.seconds_a_byte + seconds) / 2 : seconds;
  cost.busy = 0;
  cost.bytes = 0;
}

}  // namespace dos::offload
