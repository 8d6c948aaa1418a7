// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/types.hpp"
#include "shape/activation_plan.hpp"
#include "shape/adapters.hpp"

namespace dos::shape {

/// Rotary embeddings for more tokens than the model was first trained with, as Llama 3.1 has them:
/// what turns less than `low_freq_factor` times in `original_context` tokens turns `factor` times
/// slower, what turns more than `high_freq_factor` times as before, the rest something between.
struct RopeScaling {
  double factor = 1;  ///< 1: none
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  Index original_context = 8192;

  bool operator==(const RopeScaling&) const = default;
};

/// The sizes of a decoder-only transformer, and what its family leaves open.
struct ModelConfig {
  std::string architecture = "gpt2";  ///< its family
  Index layers = 0;
  Index width = 0;  ///< size of the residual stream
  Index heads = 0;
  Index context = 0;  ///< tokens a sequence
  Index vocabulary = 0;
  Index kv_heads = 0;  ///< heads of keys and values; 0: one each
  Index ffn = 0;       ///< inner width of the MLP; 0: the family's
  /// Of family "gpt2" alone: rows of its table of positions, at least the context; 0: as many.
  Index positions = 0;
  // Of family "llama" alone.
  Index head_dim = 0;         ///< elements of a head; 0: width / heads
  double rope_theta = 10000;  ///< pair i of a head's d elements turns theta^(-2i/d) a token
  RopeScaling rope_scaling{};
  double norm_epsilon = 1e-5;  ///< added to the mean square
  Index window = 0;            ///< tokens that one attends to, itself the last; 0: all before it
  bool tied_head = false;      ///< the token table makes the logits
  bool qkv_bias = false;       ///< of queries, keys and values
  bool qk_norm = false;        ///< each head of queries and keys is normalised
  Adapters adapters{};         ///< beside what the family has

  [[nodiscard]] Index head_size() const { return head_dim != 0 ? head_dim : width / heads; }
  /// Heads of keys, and of values.
  [[nodiscard]] Index key_heads() const { return kv_heads != 0 ? kv_heads : heads; }
  /// Of the queries, and of what attention gives.
  [[nodiscard]] Index attention_width() const { return head_size() * heads; }
  /// Of keys, and of values.
  [[nodiscard]] Index kv_width() const { return head_size() * key_heads(); }
  /// Of queries, keys and values side by side.
  [[nodiscard]] Index qkv_width() const { return attention_width() + 2 * kv_width(); }
  [[nodiscard]] Index position_rows() const { return positions != 0 ? positions : context; }
  /// Tokens that one attends to at most, itself among them.
  [[nodiscard]] Index reach() const { return window != 0 && window < context ? window : context; }
  bool operator==(const ModelConfig&) const = default;

  /// The model without its adapters.
  [[nodiscard]] ModelConfig base() const {
    ModelConfig model = *this;
    model.adapters = {};
    return model;
  }

  /// Throws Error naming the first value that makes no model.
  void validate() const;
};

/// What runs lanes of a micro-batch side by side: GPUs where there are any, else CPU workers.
struct LaneWorkers {
  Index count = 1;
  bool on_gpus = false;

  /// Rows of logits at a time unless the user says how many. On a GPU enough for its processors,
  /// and that the gradient of the table, which each chunk of rows is added to, is seldom read; on a
  /// CPU, of which each worker has a lane, few.
  [[nodiscard]] constexpr Index logits_rows() const { return on_gpus ? 2048 : 512; }
};

/// How a model is run; decides its buffers.
struct RunShape {
  Index batch = 1;               ///< sequences of a micro-batch
  Index lanes = 1;               ///< slices of the micro-batch that workers run side by side
  ActivationPlan activations{};  ///< how backward has them
  bool training = true;          ///< false: no buffers for gradients of activations
  Index logits_rows = LaneWorkers{}.logits_rows();  ///< that exist at a time in a lane
  DType type = DType::kF32;  ///< of activations and their gradients: kF32 or kBF16

  /// Sequences of lane `lane`: batch / lanes, the first batch % lanes lanes have one more.
  [[nodiscard]] Index lane_sequences(Index lane) const {
    return batch / lanes + (lane < batch % lanes ? 1 : 0);
  }

  /// Throws Error naming the first value out of range.
  void validate() const;
};

}  // namespace dos::shape
