// SPDX-License-Identifier: Apache-2.0
#include "tensor/slots.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.hpp"

namespace dos::tensor {

Slots::Slots(const shape::Layout& layout, Index sets) : slot_of_(layout.subgroups.size()) {
  require(sets >= 1, "at least one set of buffers");
  std::iota(slot_of_.begin(), slot_of_.end(), Index{0});
  for (Index i = 0; i < std::ssize(layout.subgroups); ++i) {
    const auto depth =
        static_cast<std::size_t>(layout.subgroups[static_cast<std::size_t>(i)].depth);
    if (depths_.size() <= depth) depths_.resize(depth + 1);
    depths_[depth].members.push_back(i);
  }
  std::map<std::vector<Index>, std::vector<std::size_t>> alike;
  for (std::size_t depth = 1; depth < depths_.size(); ++depth) {
    std::vector<Index> sizes;
    for (const Index member : depths_[depth].members)
      sizes.push_back(layout.subgroups[static_cast<std::size_t>(member)].count);
    alike[sizes].push_back(depth);
  }
  for (const auto& [sizes, depths] : alike) {
    const auto count = static_cast<Index>(depths.size());
    if (count <= sets) continue;
    for (Index k = 0; k < count; ++k) {
      Depth& depth = depths_[depths[static_cast<std::size_t>(k)]];
      const std::size_t first = depths[static_cast<std::size_t>(k % sets)];
      depth.set = static_cast<Index>(first);
      for (std::size_t j = 0; j < depth.members.size(); ++j)
        slot_of_[static_cast<std::size_t>(depth.members[j])] = depths_[first].members[j];
    }
  }
}

}  // namespace dos::tensor
