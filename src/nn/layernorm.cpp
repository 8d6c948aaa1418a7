// SPDX-License-Identifier: Apache-2.0
#include "nn/layernorm.hpp"

#include <utility>

namespace dos::nn {
namespace {

codelets::NormRef norm_ref(const tensor::Layout& layout, const tensor::SubgroupHandles& handles,
                           const std::string& name) {
  return {.weight = slice_ref(layout.find(name + ".weight"), handles),
          .bias = slice_ref(layout.find(name + ".bias"), handles)};
}

}  // namespace

LayerNorm::LayerNorm(const tensor::ParameterSet& set, std::string name)
    : name_(std::move(name)),
      value_(norm_ref(set.layout(), set.working(), name_)),
      gradient_(norm_ref(set.layout(), set.gradients(), name_)) {}

void LayerNorm::forward(rt::Submitter& submitter, const codelets::NormShape& shape,
                        const rt::Handle& x, const rt::Handle& y, const rt::Handle& statistics,
                        const Urgency& urgency) const {
  codelets::submit_layernorm_forward(submitter, shape, x, value_, y, statistics,
                                     {.priority = urgency.path, .label = name_.c_str()});
}

void LayerNorm::backward(rt::Submitter& submitter, const codelets::NormShape& shape,
                         const rt::Handle& x, const rt::Handle& statistics,
                         const Gradients& gradients, bool accumulate,
                         const Urgency& urgency) const {
  const rt::TaskOptions path{.priority = urgency.path, .label = name_.c_str()};
  if (gradients.residual != nullptr)
    codelets::submit_layernorm_backward(submitter, shape, x, value_, statistics, gradients.dy,
                                        *gradients.residual, gradients.dx, path);
  else
    codelets::submit_layernorm_backward_last(submitter, shape, x, value_, statistics, gradients.dy,
                                             gradients.dx, path);
  codelets::submit_layernorm_backward_weight(
      submitter, shape, x, statistics, gradients.dy, accumulate, gradient_,
      {.priority = urgency.off_path, .label = name_.c_str()});
}

}  // namespace dos::nn
