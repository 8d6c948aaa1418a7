// SPDX-License-Identifier: Apache-2.0
#include "nn/linear.hpp"

#include <utility>

namespace dos::nn {

Linear::Linear(const tensor::ParameterSet& set, std::string name, Bias bias)
    : name_(std::move(name)), weight_(set, name_ + ".weight") {
  if (bias == Bias::kLearned) bias_.emplace(set, name_ + ".bias");
  if (set.layout().find(name_ + ".weight").spec.adapted) adapter_.emplace(set, name_);
}

void Linear::product(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                     const rt::Handle& y, const rt::TaskOptions& options) const {
  if (bias_)
    codelets::submit<codelets::LinearForward>(
        submitter, {.x = x, .bias = bias_->value, .y = y, .w = weight_.value}, {tokens}, options);
  else
    codelets::submit<codelets::ProductForward>(submitter, {.x = x, .y = y, .w = weight_.value},
                                               {{tokens}}, options);
}

void Linear::forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                     const rt::Handle& y, const BlockBuffers& kept, const Urgency& urgency) const {
  product(submitter, tokens, x, y, {.priority = urgency.path, .label = name_.c_str()});
  if (adapter_) adapter_->forward(submitter, {0, tokens}, x, y, kept, urgency);
}

void Linear::forward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& x,
                     const rt::Handle& y, const BlockBuffers& kept, const Urgency& urgency) const {
  const codelets::RowRange rows{lane.first, lane.tokens()};
  const rt::TaskOptions options{.priority = urgency.path, .label = name_.c_str()};
  if (y.count() == rows.count * weight_.value.blocking.rows)
    return forward(submitter, rows.count, x, y, kept, urgency);
  if (bias_)
    codelets::submit<codelets::LinearForwardRows>(
        submitter, {.x = x, .bias = bias_->value, .y = y, .w = weight_.value}, rows, options);
  else
    codelets::submit<codelets::ProductForwardRows>(submitter, {.x = x, .y = y, .w = weight_.value},
                                                   rows, options);
  if (adapter_) adapter_->forward(submitter, rows, x, y, kept, urgency);
}

void Linear::forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                     const rt::Handle& residual, const rt::Handle& y, const BlockBuffers& kept,
                     const Urgency& urgency) const {
  const rt::TaskOptions options{.priority = urgency.path, .label = name_.c_str()};
  if (bias_)
    codelets::submit<codelets::LinearResidualForward>(
        submitter, {.x = x, .bias = bias_->value, .residual = residual, .y = y, .w = weight_.value},
        {tokens}, options);
  else
    codelets::submit<codelets::ProductResidualForward>(
        submitter, {.x = x, .residual = residual, .y = y, .w = weight_.value}, {tokens}, options);
  if (adapter_) adapter_->forward(submitter, {0, tokens}, x, y, kept, urgency);
}

void Linear::recompute(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                       const BlockBuffers& kept, const Urgency& urgency) const {
  if (adapter_) adapter_->recompute(submitter, tokens, x, kept, urgency);
}

void Linear::backward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                      const BlockBuffers& kept, const Gradients& gradients, bool accumulate,
                      const Urgency& urgency) const {
  const auto& [dy, dx, of_block] = gradients;
  const rt::TaskOptions off_path{.priority = urgency.off_path, .label = name_.c_str()};
  codelets::submit<codelets::LinearBackwardData>(
      submitter, {.dy = dy, .dx = dx, .w = weight_.value}, {tokens},
      {.priority = urgency.path, .label = name_.c_str()});
  if (adapter_) adapter_->backward_data(submitter, tokens, dy, dx, of_block, urgency);
  const Index out = weight_.value.blocking.rows;
  if (weight_.gradient)
    codelets::submit_linear_weight(submitter, accumulate,
                                   {.dy = dy, .x = x, .dw = *weight_.gradient}, {{0, tokens}, out},
                                   off_path);
  if (bias_ && bias_->gradient)
    codelets::submit<codelets::BiasBackward>(submitter, {.dy = dy, .dbias = *bias_->gradient},
                                             {tokens, out, accumulate}, off_path);
  if (adapter_)
    adapter_->backward_weights(submitter, tokens, {x, dy}, kept, of_block, accumulate, urgency);
}

}  // namespace dos::nn
