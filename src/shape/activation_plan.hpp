// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "base/types.hpp"

namespace dos::shape {

/// How backward has again what forward made in a block.
enum class Refill : std::uint8_t {
  kNone,       ///< all of it was kept
  kSelective,  ///< norms and activation functions are computed again, the rest was kept
  kRecompute,  ///< all but the block's input is computed again
  kHost,       ///< norms and activation functions are computed again, the rest is in host memory
  kDisk,       ///< norms and activation functions are computed again, the rest comes from a disk
};

/// Blocks by how backward has their activations, from the first block that backward reaches on: so
/// many are moved to disks, the next ones to host memory, the next ones are recomputed, the next
/// ones recomputed in part; those behind them, which backward needs first, keep all. What is beyond
/// the blocks does not count.
struct ActivationPlan {
  static constexpr Index kAll = std::numeric_limits<Index>::max() / 4;

  Index moved = 0;
  Index hosted = 0;
  Index recomputed = 0;
  Index selective = 0;

  /// Blocks that have no buffers of their own for what products make.
  [[nodiscard]] Index without_made() const { return moved + hosted + recomputed; }
  /// Blocks that have none for norms and activation functions.
  [[nodiscard]] Index without_cheap() const { return without_made() + selective; }

  bool operator==(const ActivationPlan&) const = default;

  /// Of as many blocks at least as of this one and of the other: nothing in the device's memory,
  /// nothing of what products make, nothing in memory at all.
  [[nodiscard]] ActivationPlan with_all_of(const ActivationPlan& other) const;
  [[nodiscard]] bool keeps_all() const { return *this == ActivationPlan(); }
};

/// "keep", "selective", "recompute", "host", "disk", or counts of blocks as
/// "disk:4,host:1,recompute:2,selective:6"; of "auto" nothing is known: that keeps all. Throws
/// Error, naming train.activations, for another text.
ActivationPlan parse_activation_plan(const std::string& text);

/// The text of a plan for a model of so many blocks.
std::string activation_plan_text(const ActivationPlan& plan, Index blocks);

inline constexpr ActivationPlan kRecomputeAll{.recomputed = ActivationPlan::kAll};

constexpr ActivationPlan recompute_if(bool recompute) {
  return recompute ? kRecomputeAll : ActivationPlan{};
}

/// Which buffers of one kind the blocks have that backward reaches: the first `shared` of them a
/// ring of some, each of the others its own. Blocks are counted from the first that is reached.
class BufferSets {
 public:
  /// `ring`: at most so many where blocks share.
  BufferSets(Index blocks, Index shared, Index ring);

  [[nodiscard]] Index count() const { return ring_ + blocks_ - shared_; }
  [[nodiscard]] Index of(Index block) const {
    return block < shared_ ? block % ring_ : ring_ + block - shared_;
  }
  /// A later block's forward overwrites it.
  [[nodiscard]] bool is_lost(Index block) const { return block + ring_ < shared_; }
  /// Backward of no other block comes after it in the same buffers.
  [[nodiscard]] bool is_last_use(Index block) const { return block >= shared_ || block < ring_; }

 private:
  Index blocks_;
  Index shared_;
  Index ring_;
};

}  // namespace dos::shape
