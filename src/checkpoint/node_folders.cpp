// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/node_folders.hpp"

#include <cstddef>
#include <utility>

#include "base/error.hpp"

namespace dos::checkpoint {

NodeFolders::NodeFolders(std::vector<Index> by_rank) : by_rank_(std::move(by_rank)) {
  leaders_.clear();
  for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
    require(by_rank_[rank] >= 0 && by_rank_[rank] <= count(), "folders are counted in turn");
    if (by_rank_[rank] == count()) leaders_.push_back(static_cast<Index>(rank));
  }
  require(!leaders_.empty(), "there is a rank");
}

Index NodeFolders::of(Index rank) const {
  return by_rank_.empty() ? 0 : by_rank_.at(static_cast<std::size_t>(rank));
}

Index NodeFolders::leader(Index folder) const {
  return leaders_.at(static_cast<std::size_t>(folder));
}

std::vector<Index> NodeFolders::other_leaders() const {
  return {leaders_.begin() + 1, leaders_.end()};
}

}  // namespace dos::checkpoint
