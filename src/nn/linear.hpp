// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "codelets/linear/linear_codelet.hpp"
#include "nn/lane_shape.hpp"
#include "nn/parameter_refs.hpp"
#include "nn/priority.hpp"

namespace dos::nn {

enum class Bias : std::uint8_t { kNone, kLearned };

/// y = x weight^T + bias with weight[out, in], bias[out], named "<name>.weight" and "<name>.bias";
/// the bias may be left out.
class Linear {
 public:
  Linear(const tensor::ParameterSet& set, std::string name, Bias bias = Bias::kLearned);

  void forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x, const rt::Handle& y,
               const Urgency& urgency) const;
  /// The same where y may have more rows than x: of all tokens of a sequence that goes on. Those of
  /// other tokens stay.
  void forward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& x,
               const rt::Handle& y, const Urgency& urgency) const;
  /// y = x weight^T + bias + residual.
  void forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
               const rt::Handle& residual, const rt::Handle& y, const Urgency& urgency) const;
  /// dx from dy; then the gradients of weight and bias from dy and x, where they are trained, added
  /// to what is there if `accumulate`.
  void backward(rt::Submitter& submitter, Index tokens, const rt::Handle& x, const rt::Handle& dy,
                const rt::Handle& dx, bool accumulate, const Urgency& urgency) const;

 private:
  std::string name_;
  MatrixParameter weight_;
  std::optional<VectorParameter> bias_;
};

}  // namespace dos::nn
