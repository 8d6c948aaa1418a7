// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/types.hpp"

namespace dos::models {

/// The shape of a decoder-only transformer.
struct ModelConfig {
  std::string architecture = "gpt2";
  Index layers = 0;
  Index width = 0;  ///< size of the residual stream
  Index heads = 0;
  Index context = 0;  ///< tokens a sequence
  Index vocabulary = 0;

  [[nodiscard]] Index head_size() const { return width / heads; }
  bool operator==(const ModelConfig&) const = default;

  /// Throws Error naming the first value that makes no model.
  void validate() const;
};

/// How a model is run; decides its buffers.
struct RunShape {
  Index batch = 1;           ///< sequences of a micro-batch
  Index lanes = 1;           ///< slices of the micro-batch that workers run side by side
  bool recompute = false;    ///< keep only each block's input, compute the rest again in backward
  bool training = true;      ///< false: no buffers for gradients of activations
  Index logits_rows = 512;   ///< rows of logits that exist at a time in a lane
  DType type = DType::kF32;  ///< of activations and their gradients: kF32 or kBF16

  /// Sequences of lane `lane`: batch / lanes, the first batch % lanes lanes have one more.
  [[nodiscard]] Index lane_sequences(Index lane) const {
    return batch / lanes + (lane < batch % lanes ? 1 : 0);
  }

  /// Throws Error naming the first value out of range.
  void validate() const;
};

/// The workers that share a model's tasks: each has work space of its own, all of one size.
struct WorkerCount {
  Index all = 1;   ///< of every kind
  Index cuda = 0;  ///< of them
};

/// What of a run the runtime keeps records of.
struct RunCounts {
  Index buffers = 0;  ///< that the model registers
  Index tasks = 0;    ///< of forward and backward of a micro-batch, at most
};

}  // namespace dos::models
