// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/demand.hpp"
#include "models/family.hpp"
#include "models/lane.hpp"
#include "nn/loss_head.hpp"

namespace dos::models {

/// One sequence that grows, with the keys and values of its tokens: a pass computes new tokens
/// alone, which attend to what earlier passes have left. Keys and values stay where the product
/// makes them, one buffer [context, width] a layer, and nothing is copied.
class Continuation {
 public:
  /// Allocates what buffers(config, shape, ...) counts, for sequences of config.context tokens. The
  /// session and `set` must outlive the object. Throws Error for a family that cannot be computed,
  /// or sizes out of range.
  Continuation(rt::Session& session, const tensor::ParameterSet& set,
               const shape::ModelConfig& config, const ContinuationShape& shape);
  Continuation(const Continuation&) = delete;
  Continuation& operator=(const Continuation&) = delete;

  /// Forward of the tokens from number `first` on, where those before have been computed. Returns
  /// at once; the returned buffer begins with the logits of the last token, in the shape's type,
  /// once its tasks are done. Tokens before `first` may be computed again, to fill a chunk. Pre: 0
  /// <= first < tokens.size() <= config.context.
  const rt::Handle& extend(rt::Submitter& submitter, std::span<const std::int32_t> tokens,
                           Index first);

 private:
  /// The buffers of one pass, over lane.shape.context tokens.
  struct Pass {
    Lane lane;
    std::vector<BlockBuffers> blocks;  ///< by layer
  };
  void add_pass(rt::Session& session, Index tokens);
  void submit_pass(rt::Submitter& submitter, const Pass& pass, Index first,
                   std::span<const std::int32_t> tokens) const;

  shape::ModelConfig config_;
  ContinuationShape shape_;
  std::unique_ptr<rt::Handle> workspace_;
  std::vector<std::shared_ptr<const rt::Handle>> caches_;  ///< by layer
  std::vector<Pass> chunks_;
  std::vector<Pass> steps_;  ///< one, unless a chunk is a step
  std::size_t next_chunk_ = 0;
  Parts parts_;
  nn::LossHead head_;
};

}  // namespace dos::models
