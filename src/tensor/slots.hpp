// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "shape/layout.hpp"

namespace dos::tensor {

/// Which depths of a model can use the same buffers one after the other, as layers do whose
/// parameters are needed or whose gradients exist for a moment only. Depths whose subgroups have
/// the same sizes in the same order share `sets` sets of buffers, in turn; where no more than
/// `sets` depths are alike, each has buffers of its own. Depth 0 always has: a tied head uses its
/// embeddings from the beginning of backward to the end.
class Slots {
 public:
  Slots(const shape::Layout& layout, Index sets);

  [[nodiscard]] bool are_shared(Index depth) const { return set_of(depth) >= 0; }
  /// The set of buffers of a depth, by a number; -1 where it is not shared.
  [[nodiscard]] Index set_of(Index depth) const {
    return depths_[static_cast<std::size_t>(depth)].set;
  }
  /// The subgroup whose slot a subgroup uses; itself where buffers are not shared.
  [[nodiscard]] Index slot_of(Index subgroup) const {
    return slot_of_[static_cast<std::size_t>(subgroup)];
  }
  [[nodiscard]] Index depths() const { return static_cast<Index>(depths_.size()); }
  /// Subgroups of a depth, ascending.
  [[nodiscard]] const std::vector<Index>& members(Index depth) const {
    return depths_[static_cast<std::size_t>(depth)].members;
  }

 private:
  struct Depth {
    std::vector<Index> members{};
    Index set = -1;
  };
  std::vector<Depth> depths_;
  std::vector<Index> slot_of_;
};

}  // namespace dos::tensor
