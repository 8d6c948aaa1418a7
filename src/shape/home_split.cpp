// SPDX-License-Identifier: Apache-2.0
#include "shape/home_split.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "base/small_sizes.hpp"
#include "base/units.hpp"

namespace dos::shape {
namespace {

/// Workers that a disk keeps at work: one updates some GB/s of states, a disk reads and writes less
/// than that. More slots would only take room from states that could stay.
constexpr Index kWorkersADisk = 4;

/// Chooses out of a list, in its order, so much of it that all that is chosen is spread evenly.
class EvenChoice {
 public:
  /// `part`: of all bytes.
  explicit EvenChoice(double part) : part_(part) {}

  /// Whether the next is to be chosen.
  [[nodiscard]] bool wants(Index bytes) {
    due_ += part_ * static_cast<double>(bytes);
    return static_cast<double>(chosen_) + static_cast<double>(bytes) / 2 < due_;
  }
  void chosen(Index bytes) { chosen_ += bytes; }
  [[nodiscard]] Index bytes() const { return chosen_; }

 private:
  double part_;
  double due_ = 0;  ///< bytes that should have been chosen so far
  Index chosen_ = 0;
};

Index sum(std::span<const Index> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), Index{0});
}

double part_of(Index bytes, Index all) {
  return all > 0 ? std::min(1.0, static_cast<double>(bytes) / static_cast<double>(all)) : 0;
}

/// Gives devices what they have room for, the one with most room left first. Returns its bytes.
Index put_on_devices(std::span<const Index> sizes, std::vector<Index> rooms, HomeSplit& split) {
  split.device.assign(sizes.size(), -1);
  if (rooms.empty()) return 0;
  Index given = 0;
  const auto give = [&](std::size_t i) {
    const auto most = std::ranges::max_element(rooms);
    if (*most < sizes[i]) return false;
    *most -= sizes[i];
    given += sizes[i];
    split.device[i] = most - rooms.begin();
    return true;
  };
  const auto [small, others] = by_smallness(sizes);
  for (const std::size_t i : small) give(i);
  EvenChoice choice(part_of(sum(rooms), sum(sizes) - given));
  for (const std::size_t i : others)
    if (choice.wants(sizes[i]) && give(i)) choice.chosen(sizes[i]);
  return given;
}

}  // namespace

HomeSplit split_homes(std::span<const Index> sizes, Index workers, const HomeRooms& rooms) {
  HomeSplit split;
  const Index all = sum(sizes);
  if (all <= rooms.host) return split;
  const Index largest = *std::ranges::max_element(sizes);
  const Index rest = all - put_on_devices(sizes, rooms.devices, split);
  const bool are_any_on_devices = rest < all;
  if (rooms.disks == 0 && !are_any_on_devices) return HomeSplit();
  const auto count = std::ssize(sizes);
  const Index few = std::min(kSlotsUnderWay, count);
  const Index least = std::min(kLeastSlots, count);
  split.slot_bytes = largest;
  // The host holds the rest, or nobody asks how much it has.
  split.slots = few;
  if (rooms.disks == 0 || (rooms.host == 0 && rest == 0)) return split;
  split.slots = std::min(few, (rooms.host - rest) / largest);
  if (split.slots >= least) return split;
  const Index updating = std::min(workers, kWorkersADisk * rooms.disks);
  const Index wanted = std::min(updating + kSlotsUnderWay, count);
  split.slots = wanted;
  Index room = 0;  // for states that stay
  if (rooms.host > 0) {
    split.slots = std::min(wanted, rooms.host / largest);
    expect(split.slots >= least,
           "sched.host_memory = {:g} GB is too little: {} of states go through it {} at a time; "
           "raise it to {:g}, or lower sched.subgroup_params",
           static_cast<double>(rooms.host) / 1e9, format_bytes(all), format_bytes(largest),
           static_cast<double>(ceil_div(kLeastSlots * largest, Index{1'000'000})) / 1e3);
    room = rooms.host - split.slots * largest;
  }
  const auto [small, others] = by_smallness(sizes);
  Index stays = 0;  // bytes
  for (const std::size_t i : small) {
    if (split.device[i] >= 0) continue;
    if (stays + sizes[i] <= room)
      stays += sizes[i];
    else
      split.on_disk.push_back(i);
  }
  EvenChoice choice(part_of(room - stays, rest - stays));
  for (const std::size_t i : others) {
    if (split.device[i] >= 0) continue;
    if (choice.wants(sizes[i]) && stays + choice.bytes() + sizes[i] <= room)
      choice.chosen(sizes[i]);
    else
      split.on_disk.push_back(i);
  }
  std::ranges::sort(split.on_disk);
  return split;
}

}  // namespace dos::shape
