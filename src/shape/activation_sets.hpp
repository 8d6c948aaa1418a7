// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "shape/activation_plan.hpp"
#include "shape/family_shape.hpp"

namespace dos::shape {

/// Elements from the start of one row of logits to the start of the next: the vocabulary, filled up
/// to a multiple of 64. The fast kernels of GPUs take rows that start on 16 bytes, which those of
/// an odd vocabulary do not; with 64 elements every row starts on 128 bytes, a line of their
/// caches, in BF16 too. No operation reads or writes what fills a row up.
constexpr Index logits_stride(Index vocabulary) {
  constexpr Index kMultiple = 64;
  return ceil_div(vocabulary, kMultiple) * kMultiple;
}

/// What a model does with its blocks, the last ones of which backward goes through.
struct Passes {
  bool training = true;
  ActivationPlan plan{};
  Index reached = std::numeric_limits<Index>::max();  ///< by backward; at most all

  [[nodiscard]] Index reached_of(const ModelConfig& config) const;
};

/// The blocks that backward goes through to end at a depth.
Index reached_blocks(const ModelConfig& config, Index first_trained_depth);

/// Where what blocks keep lies. Blocks that backward does not reach share the buffers of the first
/// one that it reaches; where it reaches none, all have the same.
class ActivationSets {
 public:
  ActivationSets(const ModelConfig& config, const Passes& passes);

  /// Buffers that exist of an activation.
  [[nodiscard]] Index count(const Activation& activation) const {
    return sets_of(activation).count();
  }
  /// The one that a block has, counted from the model's first.
  [[nodiscard]] Index of(const Activation& activation, Index layer) const {
    return sets_of(activation).of(place_of(layer));
  }
  /// Whether backward of no other block uses the buffer after this one's, or none is reached and
  /// this is the last.
  [[nodiscard]] bool is_last_use(const Activation& activation, Index layer) const;
  /// What is to be done before backward of a block: nothing where its buffers have kept what was
  /// there, as those that share them came before it.
  [[nodiscard]] Refill refill(Index layer) const;
  /// Whether one of its buffers has contents of several slots in host memory, one after the other.
  [[nodiscard]] bool changes_home(const Activation& activation, Index set) const;
  /// Whether one of its buffers goes to disks and comes from there.
  [[nodiscard]] bool goes_to_disk(const Activation& activation, Index set) const;
  /// Buffers of what products make that contents come to, or leave from, for slots or disks.
  [[nodiscard]] Index in_transit() const;
  /// Blocks for which this is to be done.
  [[nodiscard]] Index count(Refill refill) const;

 private:
  [[nodiscard]] const BufferSets& sets_of(const Activation& activation) const {
    return activation.is_cheap ? cheap_ : made_;
  }
  [[nodiscard]] Index place_of(Index layer) const;
  [[nodiscard]] bool is_moved(const Activation& activation, Index set, Refill where) const;

  ActivationPlan plan_;
  Index layers_;
  Index reached_;
  BufferSets made_;   ///< of what products make
  BufferSets cheap_;  ///< of the rest
};

/// Sets of gradients: weight gradients of one block may run beside backward of the next.
Index gradient_sets(const ModelConfig& config, const Passes& passes);

/// Numbers that a token keeps, logits apart.
struct ActivationCount {
  Index values = 0;  ///< of the activations' type
  Index wide = 0;    ///< FP32

  /// `size`: bytes of the activations' type.
  [[nodiscard]] Index bytes(Index size) const {
    return size * values + size_of(DType::kF32) * wide;
  }
};

/// The stream before and after every block, sets of what blocks keep, the last norm; in training
/// the gradients of the last norm and of the stream before it, and sets of blocks' gradients.
ActivationCount count_activations(const Family& family, const ModelConfig& config,
                                  const Passes& passes);

/// What one block keeps of a kind: of what products make, or of the rest.
ActivationCount count_block(const Family& family, const ModelConfig& config, bool is_cheap);

/// What is moved, of all blocks: `where` is Refill::kHost or Refill::kDisk.
ActivationCount count_moved(const Family& family, const ModelConfig& config, const Passes& passes,
                            Refill where);

/// Of count_activations() what comes to the host on its way to slots or disks.
ActivationCount count_in_transit(const Family& family, const ModelConfig& config,
                                 const Passes& passes);

/// Numbers of the activations' type that are read and written to make again what is cheap of a
/// block.
Index cheap_traffic(const Family& family, const ModelConfig& config);

}  // namespace dos::shape
