// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

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
  bool recompute = false;
  Index reached = std::numeric_limits<Index>::max();  ///< by backward; at most all

  [[nodiscard]] Index reached_of(const ModelConfig& config) const;
};

/// The blocks that backward goes through to end at a depth.
Index reached_blocks(const ModelConfig& config, Index first_trained_depth);

/// Sets of a block's kept activations that exist: one of each block that backward reaches; with
/// recomputation those of the block at work and of the one before it; one where none is reached.
/// Block l has set l modulo their number.
Index activation_sets(const ModelConfig& config, const Passes& passes);
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

}  // namespace dos::shape
