// SPDX-License-Identifier: Apache-2.0
#include "shape/state_regions.hpp"

#include <algorithm>
#include <functional>

#include "base/common_sizes.hpp"

namespace dos::shape {
namespace {

/// That a disk writes at the same time: it is kept busy by one, while another one begins or ends.
constexpr Index kWrittenAtOnce = 2;

}  // namespace

Index StateRegions::total_bytes() const {
  Index sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) sum += bytes[i] * counts[i];
  return sum;
}

StateRegions regions_for(std::span<const Index> sizes, Index slots, Index disks) {
  const std::vector<Index> common = common_sizes(sizes);
  StateRegions regions{.bytes = common};
  std::ranges::sort(regions.bytes, std::greater());
  regions.bytes.erase(std::unique(regions.bytes.begin(), regions.bytes.end()), regions.bytes.end());
  regions.counts.assign(regions.bytes.size(), 0);
  for (const Index size : common) {
    const auto place = std::ranges::find(regions.bytes, size) - regions.bytes.begin();
    regions.size_of.push_back(place);
    ++regions.counts[static_cast<std::size_t>(place)];
  }
  const Index spare = std::max<Index>(1, std::min(slots, kWrittenAtOnce * disks));
  for (Index& count : regions.counts) count += std::min(count, spare);
  return regions;
}

}  // namespace dos::shape
