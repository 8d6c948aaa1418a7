// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/layernorm/layernorm_codelet.hpp"
#include "nn/parameter_refs.hpp"
#include "nn/priority.hpp"

namespace dos::nn {

/// Layer normalisation with weight[width] and bias[width], named "<name>.weight" and "<name>.bias".
class LayerNorm {
 public:
  LayerNorm(const tensor::ParameterSet& set, std::string name);

  /// y[tokens, width] from x; statistics[tokens, 2] for backward.
  void forward(rt::Submitter& submitter, const codelets::NormShape& shape, const rt::Handle& x,
               const rt::Handle& y, const rt::Handle& statistics, const Urgency& urgency) const;

  /// Where backward reads and writes; `residual`, the gradient that by-passes the norm, may be
  /// null.
  struct Gradients {
    const rt::Handle& dy;
    const rt::Handle* residual;
    const rt::Handle& dx;
  };
  /// dx = residual + gradient through the norm, then the gradients of weight and bias.
  void backward(rt::Submitter& submitter, const codelets::NormShape& shape, const rt::Handle& x,
                const rt::Handle& statistics, const Gradients& gradients, bool accumulate,
                const Urgency& urgency) const;

 private:
  std::string name_;
  codelets::NormRef value_;
  codelets::NormRef gradient_;
};

}  // namespace dos::nn
