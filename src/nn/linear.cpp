// SPDX-License-Identifier: Apache-2.0
#include "nn/linear.hpp"

#include <utility>

namespace dos::nn {

Linear::Linear(const tensor::ParameterSet& set, std::string name)
    : name_(std::move(name)), weight_(set, name_ + ".weight"), bias_(set, name_ + ".bias") {}

void Linear::forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                     const rt::Handle& y, const Urgency& urgency) const {
  codelets::submit_linear_forward(submitter, tokens, x, weight_.value, bias_.value, y,
                                  {.priority = urgency.path, .label = name_.c_str()});
}

void Linear::forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                     const rt::Handle& residual, const rt::Handle& y,
                     const Urgency& urgency) const {
  codelets::submit_linear_residual_forward(submitter, tokens, x, weight_.value, bias_.value,
                                           residual, y,
                                           {.priority = urgency.path, .label = name_.c_str()});
}

void Linear::backward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                      const rt::Handle& dy, const rt::Handle& dx, bool accumulate,
                      const Urgency& urgency) const {
  const rt::TaskOptions off_path{.priority = urgency.off_path, .label = name_.c_str()};
  codelets::submit_linear_backward_data(submitter, tokens, dy, weight_.value, dx,
                                        {.priority = urgency.path, .label = name_.c_str()});
  const Index out = weight_.value.blocking.rows;
  codelets::submit_linear_backward_weight(submitter, {0, tokens}, {&dy, out}, x, accumulate,
                                          weight_.gradient, off_path);
  codelets::submit_bias_backward(submitter, tokens, out, dy, accumulate, bias_.gradient, off_path);
}

}  // namespace dos::nn
