// SPDX-License-Identifier: Apache-2.0
#include "nn/layernorm.hpp"

#include <utility>

namespace dos::nn {
namespace {

codelets::NormRef norm_ref(const shape::Layout& layout, const tensor::SubgroupHandles& handles,
                           const std::string& name) {
  return {.weight = slice_ref(layout.find(name + ".weight"), handles),
          .bias = slice_ref(layout.find(name + ".bias"), handles)};
}

}  // namespace

LayerNorm::LayerNorm(const tensor::ParameterSet& set, std::string name)
    : name_(std::move(name)), value_(norm_ref(set.layout(), set.working(), name_)) {
  if (set.layout().find(name_ + ".weight").spec.trained)
    gradient_ = norm_ref(set.layout(), set.gradients(), name_);
}

void LayerNorm::forward(rt::Submitter& submitter, const codelets::NormShape& shape,
                        const rt::Handle& x, const rt::Handle& y, const rt::Handle& statistics,
                        const Urgency& urgency) const {
  codelets::submit<codelets::LayerNormForward>(
      submitter, {.x = x, .norm = value_, .y = y, .statistics = statistics}, shape,
      {.priority = urgency.path, .label = name_.c_str()});
}

void LayerNorm::backward(rt::Submitter& submitter, const codelets::NormShape& shape,
                         const rt::Handle& x, const rt::Handle& statistics,
                         const Gradients& gradients, bool accumulate,
                         const Urgency& urgency) const {
  const rt::TaskOptions path{.priority = urgency.path, .label = name_.c_str()};
  if (gradients.residual != nullptr)
    codelets::submit<codelets::LayerNormBackward>(submitter,
                                                  {.x = x,
                                                   .norm = value_,
                                                   .statistics = statistics,
                                                   .dy = gradients.dy,
                                                   .residual = *gradients.residual,
                                                   .dx = gradients.dx},
                                                  shape, path);
  else
    codelets::submit<codelets::LayerNormBackwardLast>(
        submitter,
        {.x = x, .norm = value_, .statistics = statistics, .dy = gradients.dy, .dx = gradients.dx},
        shape, path);
  if (gradient_)
    codelets::submit<codelets::LayerNormBackwardWeight>(
        submitter, {.x = x, .statistics = statistics, .dy = gradients.dy, .dnorm = *gradient_},
        {shape, accumulate}, {.priority = urgency.off_path, .label = name_.c_str()});
}

}  // namespace dos::nn
