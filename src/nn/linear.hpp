// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "codelets/linear/linear_codelet.hpp"
#include "nn/adapter.hpp"
#include "nn/block_buffers.hpp"
#include "nn/lane_shape.hpp"
#include "nn/parameter_refs.hpp"
#include "nn/urgency.hpp"

namespace dos::nn {

enum class Bias : std::uint8_t { kNone, kLearned };

/// y = x weight^T + bias with weight[out, in], bias[out], named "<name>.weight" and "<name>.bias";
/// the bias may be left out. Where the weight has adapters (shape::Adapters), what they add to y;
/// `kept` and `gradients`, the block's, then have a buffer for what lies between their matrices.
class Linear {
 public:
  Linear(const tensor::ParameterSet& set, std::string name, Bias bias = Bias::kLearned);

  void forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x, const rt::Handle& y,
               const BlockBuffers& kept, const Urgency& urgency) const;
  /// The same where y may have more rows than x: of all tokens of a sequence that goes on. Those of
  /// other tokens stay.
  void forward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& x,
               const rt::Handle& y, const BlockBuffers& kept, const Urgency& urgency) const;
  /// y = x weight^T + bias + residual.
  void forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
               const rt::Handle& residual, const rt::Handle& y, const BlockBuffers& kept,
               const Urgency& urgency) const;
  /// What forward leaves in `kept`, without y.
  void recompute(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                 const BlockBuffers& kept, const Urgency& urgency) const;

  /// Where backward reads and writes.
  struct Gradients {
    const rt::Handle& dy;
    const rt::Handle& dx;
    const BlockBuffers& of_block;
  };
  /// dx from dy; then the gradients of weight, bias and adapters from dy, x and what is kept, where
  /// they are trained, added to what is there if `accumulate`.
  void backward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                const BlockBuffers& kept, const Gradients& gradients, bool accumulate,
                const Urgency& urgency) const;

 private:
  void product(rt::Submitter& submitter, Index tokens, const rt::Handle& x, const rt::Handle& y,
               const rt::TaskOptions& options) const;

  std::string name_;
  MatrixParameter weight_;
  std::optional<VectorParameter> bias_;
  std::optional<Adapter> adapter_;
};

}  // namespace dos::nn
