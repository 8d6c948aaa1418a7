// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/swiglu/swiglu_codelet.hpp"
#include "nn/linear.hpp"

namespace dos::nn {

/// out = residual + down(silu(gate(x)) * up(x)): the feed-forward half of a LLaMA block, without
/// biases. Gate and up are one product, "<name>.gate_up".
class GatedMlp {
 public:
  /// `hidden`: the inner width.
  GatedMlp(const tensor::ParameterSet& set, const std::string& name, Index hidden);

  /// What forward keeps for backward.
  struct Hidden {
    const rt::Handle& before;  ///< gate(x), then up(x): [tokens, 2 * hidden]
    const rt::Handle& after;   ///< [tokens, hidden]
  };

  /// `out` may be null: then only Hidden is computed (recomputation before backward).
  void forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
               const rt::Handle& residual, const Hidden& hidden, const rt::Handle* out,
               const BlockBuffers& kept, const Urgency& urgency) const;

  /// hidden.after from hidden.before, as in forward.
  void activate(rt::Submitter& submitter, Index tokens, const Hidden& hidden,
                const Urgency& urgency) const;

  /// Buffers of backward: dout in, those of Hidden's gradients work space, dx out.
  struct Gradients {
    const rt::Handle& dout;
    const rt::Handle& d_before;
    const rt::Handle& d_after;
    const rt::Handle& dx;
    const BlockBuffers& of_block;
  };
  void backward(rt::Submitter& submitter, Index tokens, const rt::Handle& x, const Hidden& hidden,
                const BlockBuffers& kept, const Gradients& gradients, bool accumulate,
                const Urgency& urgency) const;

 private:
  std::string activation_label_;
  Index hidden_;
  Linear gate_up_;
  Linear down_;
};

}  // namespace dos::nn
