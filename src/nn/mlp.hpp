// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/gelu/gelu_codelet.hpp"
#include "nn/linear.hpp"

namespace dos::nn {

/// out = residual + down(gelu(up(x))): the feed-forward half of a GPT-2 block.
class Mlp {
 public:
  Mlp(const tensor::ParameterSet& set, const std::string& name);

  /// What forward keeps for backward: both [tokens, hidden].
  struct Hidden {
    const rt::Handle& before;  ///< up(x)
    const rt::Handle& after;   ///< gelu(up(x))
  };

  /// `out` may be null: then only Hidden is computed (recomputation before backward).
  void forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
               const rt::Handle& residual, const Hidden& hidden, const rt::Handle* out,
               const BlockBuffers& kept, const Urgency& urgency) const;

  /// hidden.after from hidden.before, as in forward.
  void activate(rt::Submitter& submitter, Index tokens, const Hidden& hidden,
                const Urgency& urgency) const;

  /// Buffers of backward: dout in, d_hidden[tokens, hidden] work space, dx out.
  struct Gradients {
    const rt::Handle& dout;
    const rt::Handle& d_hidden;
    const rt::Handle& dx;
    const BlockBuffers& of_block;
  };
  void backward(rt::Submitter& submitter, Index tokens, const rt::Handle& x, const Hidden& hidden,
                const BlockBuffers& kept, const Gradients& gradients, bool accumulate,
                const Urgency& urgency) const;

 private:
  std::string activation_label_;
  Linear up_;
  Linear down_;
};

}  // namespace dos::nn
