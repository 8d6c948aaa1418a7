// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/attention/attention_codelet.hpp"
#include "nn/priority.hpp"

namespace dos::nn {

/// FP32 elements of work space that one attention task over sequences of `context` tokens takes,
/// with so many heads of this size and activations of this type. `on_cuda`: CUDA workers run some
/// of the tasks.
Index attention_workspace(Index context, Index heads, Index head_size, DType type, bool on_cuda);

/// Causal multi-head attention between its two projections; it has no parameters of its own.
class Attention {
 public:
  Attention(std::string name, const rt::Handle& workspace);

  void forward(rt::Submitter& submitter, const codelets::AttentionShape& shape,
               const rt::Handle& qkv, const rt::Handle& out, const rt::Handle& logsumexp,
               const Urgency& urgency) const;

  void backward(rt::Submitter& submitter, const codelets::AttentionShape& shape,
                const rt::Handle& qkv, const rt::Handle& out, const rt::Handle& logsumexp,
                const rt::Handle& dout, const rt::Handle& dqkv, const Urgency& urgency) const;

 private:
  std::string name_;
  const rt::Handle& workspace_;
};

}  // namespace dos::nn
