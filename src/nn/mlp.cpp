// SPDX-License-Identifier: Apache-2.0
#include "nn/mlp.hpp"

namespace dos::nn {

Mlp::Mlp(const tensor::ParameterSet& set, const std::string& name)
    : activation_label_(name + ".gelu"), up_(set, name + ".up"), down_(set, name + ".down") {}

void Mlp::forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                  const rt::Handle& residual, const Hidden& hidden, const rt::Handle* out,
                  const BlockBuffers& kept, const Urgency& urgency) const {
  up_.forward(submitter, tokens, x, hidden.before, kept, urgency);
  activate(submitter, tokens, hidden, urgency);
  if (out != nullptr)
    down_.forward(submitter, tokens, hidden.after, residual, *out, kept, urgency);
  else
    down_.recompute(submitter, tokens, hidden.after, kept, urgency);
}

void Mlp::activate(rt::Submitter& submitter, Index /*tokens*/, const Hidden& hidden,
                   const Urgency& urgency) const {
  codelets::submit<codelets::GeluForward>(
      submitter, {.x = hidden.before, .y = hidden.after},
      {.priority = urgency.path, .label = activation_label_.c_str()});
}

void Mlp::backward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                   const Hidden& hidden, const BlockBuffers& kept, const Gradients& gradients,
                   bool accumulate, const Urgency& urgency) const {
  down_.backward(submitter, tokens, hidden.after, kept,
                 {gradients.dout, gradients.d_hidden, gradients.of_block}, accumulate, urgency);
  codelets::submit<codelets::GeluBackward>(
      submitter, {.x = hidden.before, .dy = gradients.d_hidden},
      {.priority = urgency.path, .label = activation_label_.c_str()});
  up_.backward(submitter, tokens, x, kept, {gradients.d_hidden, gradients.dx, gradients.of_block},
               accumulate, urgency);
}

}  // namespace dos::nn
