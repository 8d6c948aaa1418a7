// SPDX-License-Identifier: Apache-2.0
#include "nn/rmsnorm.hpp"

#include <utility>

namespace dos::nn {

RmsNorm::RmsNorm(const tensor::ParameterSet& set, std::string name, double epsilon)
    : name_(std::move(name)),
      weight_(set, name_ + ".weight"),
      epsilon_(static_cast<float>(epsilon)) {}

codelets::RmsNormShape RmsNorm::rows(const codelets::NormShape& shape) const {
  return {.tokens = shape.tokens, .width = shape.width, .epsilon = epsilon_};
}

void RmsNorm::forward(rt::Submitter& submitter, const codelets::NormShape& shape,
                      const rt::Handle& x, const rt::Handle& y, const rt::Handle& statistics,
                      const Urgency& urgency) const {
  codelets::submit<codelets::RmsNormForward>(
      submitter, {.x = x, .weight = weight_.value, .y = y, .statistics = statistics}, rows(shape),
      {.priority = urgency.path, .label = name_.c_str()});
}

void RmsNorm::backward(rt::Submitter& submitter, const codelets::NormShape& shape,
                       const rt::Handle& x, const rt::Handle& statistics,
                       const Gradients& gradients, bool accumulate, const Urgency& urgency) const {
  const rt::TaskOptions path{.priority = urgency.path, .label = name_.c_str()};
  if (gradients.residual != nullptr)
    codelets::submit<codelets::RmsNormBackward>(submitter,
                                                {.x = x,
                                                 .weight = weight_.value,
                                                 .statistics = statistics,
                                                 .dy = gradients.dy,
                                                 .residual = *gradients.residual,
                                                 .dx = gradients.dx},
                                                rows(shape), path);
  else
    codelets::submit<codelets::RmsNormBackwardLast>(submitter,
                                                    {.x = x,
                                                     .weight = weight_.value,
                                                     .statistics = statistics,
                                                     .dy = gradients.dy,
                                                     .dx = gradients.dx},
                                                    rows(shape), path);
  if (weight_.gradient)
    codelets::submit<codelets::RmsNormBackwardWeight>(
        submitter,
        {.x = x, .statistics = statistics, .dy = gradients.dy, .dweight = *weight_.gradient},
        {rows(shape), accumulate}, {.priority = urgency.off_path, .label = name_.c_str()});
}

HeadNorm::HeadNorm(const tensor::ParameterSet& set, std::string name, const Heads& heads,
                   double epsilon)
    : name_(std::move(name)),
      weight_(set, name_ + ".weight"),
      heads_(heads),
      epsilon_(static_cast<float>(epsilon)) {}

codelets::RmsNormShape HeadNorm::vectors(Index tokens) const {
  return {.tokens = tokens,
          .width = heads_.size,
          .epsilon = epsilon_,
          .vectors = heads_.queries + heads_.keys,
          .first = heads_.queries,
          .x_stride = 0,
          .y_stride = heads_.row};
}

void HeadNorm::forward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& qkv,
                       const Kept& kept, const Urgency& urgency) const {
  codelets::submit<codelets::HeadNormForward>(
      submitter,
      {.qkv = qkv, .weight = weight_.value, .heads = kept.heads, .statistics = kept.statistics},
      {vectors(lane.tokens()), lane.first}, {.priority = urgency.path, .label = name_.c_str()});
}

void HeadNorm::backward(rt::Submitter& submitter, Index tokens, const rt::Handle& dqkv,
                        const Kept& kept, bool accumulate, const Urgency& urgency) const {
  const rt::TaskOptions options{.priority = urgency.path, .label = name_.c_str()};
  if (weight_.gradient)
    codelets::submit<codelets::HeadNormBackward>(submitter,
                                                 {.heads = kept.heads,
                                                  .weight = weight_.value,
                                                  .statistics = kept.statistics,
                                                  .dqkv = dqkv,
                                                  .dweight = *weight_.gradient},
                                                 {vectors(tokens), accumulate}, options);
  else
    codelets::submit<codelets::HeadNormBackwardData>(
        submitter,
        {.heads = kept.heads, .weight = weight_.value, .statistics = kept.statistics, .dqkv = dqkv},
        vectors(tokens), options);
}

}  // namespace dos::nn
