// SPDX-License-Identifier: Apache-2.0
#include "offload/region_board.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace dos::offload {

namespace {

RegionCounts of_one_size(const std::vector<Index>& capacity) {
  RegionCounts counts;
  for (const Index each : capacity) counts.push_back({each});
  return counts;
}

}  // namespace

RegionBoard::RegionBoard(const RegionCounts& capacity, std::vector<Index> bytes,
                         std::vector<Index> sizes)
    : bytes_(std::move(bytes)),
      sizes_(std::move(sizes)),
      disks_(capacity.size()),
      share_(sizes_.size()) {
  for (std::size_t i = 0; i < capacity.size(); ++i) {
    disks_[i].capacity = capacity[i];
    for (const Index count : capacity[i]) {
      std::vector<Index>& free = disks_[i].free.emplace_back();
      for (Index number = count; number > 0; --number) free.push_back(number - 1);
    }
  }
  share();
}

RegionBoard::RegionBoard(const std::vector<Index>& capacity, Index turns)
    : RegionBoard(of_one_size(capacity), {1}, std::vector<Index>(static_cast<std::size_t>(turns))) {
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
Index RegionBoard::least_burdened(const std::vector<Index>& bytes, Index more,
                                  HasRoom has_room) const {
  Index best = -1;
  double best_burden = 0;
  for (Index disk = 0; disk < std::ssize(disks_); ++disk) {
    if (!has_room(disk)) continue;
    const double burden = static_cast<double>(bytes[static_cast<std::size_t>(disk)] + more) /
                          disk_at(disk).shared_rate;
    if (best >= 0 && burden >= best_burden) continue;
    best = disk;
    best_burden = burden;
  }
  return best;
}

void RegionBoard::share() {
  // D'Hondt's method: it keeps the longest time of a disk short after each turn, so that shares are
  // even over them, too.
  std::vector<Index> given(disks_.size());
  RegionCounts left;
  for (const Disk& disk : disks_) left.push_back(disk.capacity);
  for (std::size_t turn = 0; turn < share_.size(); ++turn) {
    const std::size_t size = size_of(static_cast<Index>(turn));
    const auto left_on = [&](Index disk) -> Index& {
      return left[static_cast<std::size_t>(disk)][size];
    };
    const Index disk =
        least_burdened(given, bytes_[size], [&](Index each) { return left_on(each) > 0; });
    share_[turn] = disk;
    if (disk < 0) continue;
    --left_on(disk);
    given[static_cast<std::size_t>(disk)] += bytes_[size];
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
  const std::size_t size = size_of(turn);
  const auto is_free = [&](Index disk) { return !disk_at(disk).free[size].empty(); };
  Index disk = share_[static_cast<std::size_t>(turn)];
  if (disk < 0 || !is_free(disk)) {
    std::vector<Index> used;
    for (const Disk& each : disks_) used.push_back(each.used_bytes);
    disk = least_burdened(used, bytes_[size], is_free);
  }
  if (disk < 0) return std::nullopt;
  return take_on(disk, turn);
}

std::optional<Region> RegionBoard::take_on(Index disk, Index turn) {
  Disk& each = disks_[static_cast<std::size_t>(disk)];
  const std::size_t size = size_of(turn);
  if (each.free[size].empty()) return std::nullopt;
  const Region region{
      .disk = disk, .number = each.free[size].back(), .size = static_cast<Index>(size)};
  each.free[size].pop_back();
  ++each.used;
  each.used_bytes += bytes_[size];
  return region;
}

void RegionBoard::give_back(const Region& region) {
  Disk& disk = disks_[static_cast<std::size_t>(region.disk)];
  const auto size = static_cast<std::size_t>(region.size);
  require(disk.used > 0, "a region that is in use");
  --disk.used;
  disk.used_bytes -= bytes_[size];
  disk.free[size].push_back(region.number);
}

void RegionBoard::count_until(Disk& disk, double now) {
  Index under_way = 0;
  for (const Cost& cost : disk.costs) under_way += cost.under_way;
  for (Cost& cost : disk.costs)
    if (cost.under_way > 0)
      cost.busy += std::max(0.0, now - disk.since) * static_cast<double>(cost.under_way) /
                   static_cast<double>(under_way);
  disk.since = std::max(disk.since, now);
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
