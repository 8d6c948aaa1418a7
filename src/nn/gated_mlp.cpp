// SPDX-License-Identifier: Apache-2.0
#include "nn/gated_mlp.hpp"

namespace dos::nn {

GatedMlp::GatedMlp(const tensor::ParameterSet& set, const std::string& name, Index hidden)
    : activation_label_(name + ".swiglu"),
      hidden_(hidden),
      gate_up_(set, name + ".gate_up", Bias::kNone),
      down_(set, name + ".down", Bias::kNone) {}

void GatedMlp::forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                       const rt::Handle& residual, const Hidden& hidden, const rt::Handle* out,
                       const BlockBuffers& kept, const Urgency& urgency) const {
  gate_up_.forward(submitter, tokens, x, hidden.before, kept, urgency);
  activate(submitter, tokens, hidden, urgency);
  if (out != nullptr)
    down_.forward(submitter, tokens, hidden.after, residual, *out, kept, urgency);
  else
    down_.recompute(submitter, tokens, hidden.after, kept, urgency);
}

void GatedMlp::activate(rt::Submitter& submitter, Index tokens, const Hidden& hidden,
                        const Urgency& urgency) const {
  codelets::submit<codelets::SwigluForward>(
      submitter, {.x = hidden.before, .out = hidden.after}, {tokens, hidden_},
      {.priority = urgency.path, .label = activation_label_.c_str()});
}

void GatedMlp::backward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                        const Hidden& hidden, const BlockBuffers& kept, const Gradients& gradients,
                        bool accumulate, const Urgency& urgency) const {
  down_.backward(submitter, tokens, hidden.after, kept,
                 {gradients.dout, gradients.d_after, gradients.of_block}, accumulate, urgency);
  codelets::submit<codelets::SwigluBackward>(
      submitter, {.x = hidden.before, .dout = gradients.d_after, .dx = gradients.d_before},
      {tokens, hidden_}, {.priority = urgency.path, .label = activation_label_.c_str()});
  gate_up_.backward(submitter, tokens, x, kept,
                    {gradients.d_before, gradients.dx, gradients.of_block}, accumulate, urgency);
}

}  // namespace dos::nn
