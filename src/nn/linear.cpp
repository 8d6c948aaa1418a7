// SPDX-License-Identifier: Apache-2.0
#include "nn/linear.hpp"

#include <utility>

namespace dos::nn {

Linear::Linear(const tensor::ParameterSet& set, std::string name, Bias bias)
    : name_(std::move(name)), weight_(set, name_ + ".weight") {
  if (bias == Bias::kLearned) bias_.emplace(set, name_ + ".bias");
}

void Linear::forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                     const rt::Handle& y, const Urgency& urgency) const {
  const rt::TaskOptions options{.priority = urgency.path, .label = name_.c_str()};
  if (bias_)
    codelets::submit<codelets::LinearForward>(
        submitter, {.x = x, .bias = bias_->value, .y = y, .w = weight_.value}, {tokens}, options);
  else
    codelets::submit<codelets::ProductForward>(submitter, {.x = x, .y = y, .w = weight_.value},
                                               {tokens}, options);
}

void Linear::forward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& x,
                     const rt::Handle& y, const Urgency& urgency) const {
  const codelets::RowRange rows{lane.first, lane.tokens()};
  if (y.count() == rows.count * weight_.value.blocking.rows)
    return forward(submitter, rows.count, x, y, urgency);
  const rt::TaskOptions options{.priority = urgency.path, .label = name_.c_str()};
  if (bias_)
    codelets::submit<codelets::LinearForwardRows>(
        submitter, {.x = x, .bias = bias_->value, .y = y, .w = weight_.value}, rows, options);
  else
    codelets::submit<codelets::ProductForwardRows>(submitter, {.x = x, .y = y, .w = weight_.value},
                                                   rows, options);
}

void Linear::forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                     const rt::Handle& residual, const rt::Handle& y,
                     const Urgency& urgency) const {
  const rt::TaskOptions options{.priority = urgency.path, .label = name_.c_str()};
  if (bias_)
    codelets::submit<codelets::LinearResidualForward>(
        submitter, {.x = x, .bias = bias_->value, .residual = residual, .y = y, .w = weight_.value},
        {tokens}, options);
  else
    codelets::submit<codelets::ProductResidualForward>(
        submitter, {.x = x, .residual = residual, .y = y, .w = weight_.value}, {tokens}, options);
}

void Linear::backward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                      const rt::Handle& dy, const rt::Handle& dx, bool accumulate,
                      const Urgency& urgency) const {
  const rt::TaskOptions off_path{.priority = urgency.off_path, .label = name_.c_str()};
  codelets::submit<codelets::LinearBackwardData>(
      submitter, {.dy = dy, .dx = dx, .w = weight_.value}, {tokens},
      {.priority = urgency.path, .label = name_.c_str()});
  const Index out = weight_.value.blocking.rows;
  if (weight_.gradient)
    codelets::submit_linear_weight(submitter, accumulate,
                                   {.dy = dy, .x = x, .dw = *weight_.gradient}, {{0, tokens}, out},
                                   off_path);
  if (bias_ && bias_->gradient)
    codelets::submit<codelets::BiasBackward>(submitter, {.dy = dy, .dbias = *bias_->gradient},
                                             {tokens, out, accumulate}, off_path);
}

}  // namespace dos::nn
