// SPDX-License-Identifier: Apache-2.0
#include "nn/mlp.hpp"

namespace dos::nn {

Mlp::Mlp(const tensor::ParameterSet& set, const std::string& name)
    : activation_label_(name + ".gelu"), up_(set, name + ".up"), down_(set, name + ".down") {}

void Mlp::forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                  const rt::Handle& residual, const Hidden& hidden, const rt::Handle* out,
                  const Urgency& urgency) const {
  up_.forward(submitter, tokens, x, hidden.before, urgency);
  codelets::submit<codelets::GeluForward>(
      submitter, {.x = hidden.before, .y = hidden.after},
      {.priority = urgency.path, .label = activation_label_.c_str()});
  if (out != nullptr) down_.forward(submitter, tokens, hidden.after, residual, *out, urgency);
}

void Mlp::backward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                   const Hidden& hidden, const Gradients& gradients, bool accumulate,
                   const Urgency& urgency) const {
  down_.backward(submitter, tokens, hidden.after, gradients.dout, gradients.d_hidden, accumulate,
                 urgency);
  codelets::submit<codelets::GeluBackward>(
      submitter, {.x = hidden.before, .dy = gradients.d_hidden},
      {.priority = urgency.path, .label = activation_label_.c_str()});
  up_.backward(submitter, tokens, x, gradients.d_hidden, gradients.dx, accumulate, urgency);
}

}  // namespace dos::nn
