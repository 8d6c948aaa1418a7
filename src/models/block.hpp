// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "nn/block_buffers.hpp"
#include "nn/lane_shape.hpp"
#include "nn/urgency.hpp"
#include "rt/handle.hpp"
#include "rt/submitter.hpp"

namespace dos::models {

/// By the names of shape::BlockShape.
using nn::BlockBuffers;
using nn::LaneShape;

/// The gradient of a block's input among the gradients of its shape.
inline constexpr std::string_view kInputGradient = "input";

/// One block of a decoder with its parameters: submits the tasks of forward and backward.
class Block {
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  virtual ~Block() = default;

  /// From the block's input in the residual stream [tokens, width] to its output. Without an output
  /// only `kept` is filled, for backward.
  virtual void forward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& input,
                       const BlockBuffers& kept, const rt::Handle* output,
                       const nn::Urgency& urgency) const = 0;

  /// Makes what is cheap (shape::Activation) from the rest of `kept` and the input.
  virtual void refill(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& input,
                      const BlockBuffers& kept, const nn::Urgency& urgency) const = 0;

  /// From d_output to gradients[kInputGradient], and the gradients of the block's parameters that
  /// are trained, added to what is there if `accumulate`.
  virtual void backward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& input,
                        const BlockBuffers& kept, const rt::Handle& d_output,
                        const BlockBuffers& gradients, bool accumulate,
                        const nn::Urgency& urgency) const = 0;
};

}  // namespace dos::models
