// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/types.hpp"

namespace dos {

/// The widths of a transformer: pre-norm blocks of attention and MLP, and a last norm.
struct BlockWidths {
  Index layers = 0;
  Index width = 0;
  Index heads = 0;
  Index kv_width = 0;  ///< of keys, and of values
  Index ffn = 0;       ///< inner width of the MLP
  bool gated = false;  ///< a product of two inner values: SwiGLU

  /// What forward keeps of a block: both norms' outputs, queries, keys and values, attention's
  /// output, the stream after attention, the MLP's inner values.
  [[nodiscard]] constexpr Index kept() const { return 5 * width + 2 * kv_width + inner() + ffn; }
  /// Gradients of these but for the last inner one, which takes the place of the one before; the
  /// gradient of the block's input.
  [[nodiscard]] constexpr Index gradients() const { return 6 * width + 2 * kv_width + inner(); }
  /// Values before the activation function.
  [[nodiscard]] constexpr Index inner() const { return (gated ? 2 : 1) * ffn; }
};

/// Sets of a block's kept activations that exist: with recompute those of the block at work and of
/// the one before it.
constexpr Index activation_sets(Index layers, bool recompute) {
  return recompute ? std::min<Index>(2, layers) : layers;
}

/// Sets of gradients: weight gradients of one block may run beside backward of the next.
constexpr Index gradient_sets(Index layers) {
  return std::min<Index>(2, layers);
}

/// Numbers that a token keeps, logits apart.
struct ActivationCount {
  Index values = 0;  ///< of the activations' type
  Index wide = 0;    ///< FP32: logarithms of sums, means and deviations
};

/// Of forward alone with `sets` sets: the stream before and after every block, the blocks, the last
/// norm.
constexpr ActivationCount count_forward(const BlockWidths& widths, Index sets) {
  return {(widths.layers + 2) * widths.width + sets * widths.kept(), sets * (widths.heads + 4) + 2};
}

/// Of forward and backward: gradients of the last norm and of the stream before it too.
constexpr ActivationCount count_training(const BlockWidths& widths, bool recompute) {
  ActivationCount count = count_forward(widths, activation_sets(widths.layers, recompute));
  count.values += 2 * widths.width + gradient_sets(widths.layers) * widths.gradients();
  return count;
}

}  // namespace dos
