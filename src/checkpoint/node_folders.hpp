// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/types.hpp"

namespace dos::checkpoint {

/// The folders that ranks have under one name: one, or one on a disk of each node. What they write
/// to each is a part of a checkpoint, and the first rank of each makes it and names it.
class NodeFolders {
 public:
  /// All ranks have one.
  NodeFolders() = default;
  /// `by_rank`: the folder of each rank, counted from 0 on in the order of their first ranks.
  explicit NodeFolders(std::vector<Index> by_rank);

  [[nodiscard]] Index count() const { return static_cast<Index>(leaders_.size()); }
  [[nodiscard]] bool are_several() const { return count() > 1; }
  [[nodiscard]] Index of(Index rank) const;
  /// Whether the rank is the first of its folder.
  [[nodiscard]] bool leads(Index rank) const { return leader(of(rank)) == rank; }
  [[nodiscard]] Index leader(Index folder) const;
  /// The first rank of each but rank 0's.
  [[nodiscard]] std::vector<Index> other_leaders() const;

 private:
  std::vector<Index> by_rank_;
  std::vector<Index> leaders_{0};  ///< by folder
};

}  // namespace dos::checkpoint
