// SPDX-License-Identifier: Apache-2.0
#include "nn/adapter.hpp"

#include "base/error.hpp"
#include "codelets/linear/linear_codelet.hpp"

namespace dos::nn {
namespace {

codelets::LowRankShape shape_of(const shape::ParameterSpec& matrix) {
  require(matrix.adapted.has_value(), "a matrix with adapters");
  const shape::AdaptedRows& adapted = *matrix.adapted;
  codelets::LowRankShape result{.rank = adapted.rank,
                                .out = matrix.rows,
                                .scale = static_cast<float>(adapted.scale),
                                .count = std::ssize(adapted.parts)};
  require(adapted.parts.size() <= result.parts.size(), "no more parts than a product has");
  for (std::size_t i = 0; i < adapted.parts.size(); ++i)
    result.parts[i] = {adapted.parts[i].first, adapted.parts[i].rows};
  return result;
}

}  // namespace

Adapter::Adapter(const tensor::ParameterSet& set, const std::string& module)
    : label_(module + ".lora"),
      between_(shape::between_name(module)),
      down_(set, shape::down_name(module)),
      up_(set, shape::up_name(module)),
      shape_(shape_of(set.layout().find(module + ".weight").spec)) {}

void Adapter::forward(rt::Submitter& submitter, const codelets::RowRange& rows, const rt::Handle& x,
                      const rt::Handle& y, const BlockBuffers& kept, const Urgency& urgency) const {
  recompute(submitter, rows.count, x, kept, urgency);
  codelets::submit<codelets::LowRankForward>(
      submitter, {.between = kept[between_], .y = y, .up = up_.value}, {shape_, rows},
      {.priority = urgency.path, .label = label_.c_str()});
}

void Adapter::recompute(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                        const BlockBuffers& kept, const Urgency& urgency) const {
  codelets::submit<codelets::ProductForward>(
      submitter, {.x = x, .y = kept[between_], .w = down_.value}, {{tokens}, shape_.scale},
      {.priority = urgency.path, .label = label_.c_str()});
}

void Adapter::backward_data(rt::Submitter& submitter, Index tokens, const rt::Handle& dy,
                            const rt::Handle& dx, const BlockBuffers& gradients,
                            const Urgency& urgency) const {
  const rt::TaskOptions options{.priority = urgency.path, .label = label_.c_str()};
  const rt::Handle& between = gradients[between_];
  codelets::submit<codelets::LowRankBackwardData>(
      submitter, {.dy = dy, .between = between, .up = up_.value}, {shape_, {0, tokens}}, options);
  codelets::submit<codelets::LinearAddBackwardData>(
      submitter, {.dy = between, .dx = dx, .w = down_.value}, {tokens}, options);
}

void Adapter::backward_weights(rt::Submitter& submitter, Index tokens, const Ends& ends,
                               const BlockBuffers& kept, const BlockBuffers& gradients,
                               bool accumulate, const Urgency& urgency) const {
  const rt::TaskOptions options{.priority = urgency.off_path, .label = label_.c_str()};
  if (up_.gradient)
    codelets::submit_low_rank_weight(
        submitter, accumulate, {.dy = ends.dy, .between = kept[between_], .dup = *up_.gradient},
        {shape_, {0, tokens}}, options);
  if (down_.gradient)
    codelets::submit_linear_weight(submitter, accumulate,
                                   {.dy = gradients[between_], .x = ends.x, .dw = *down_.gradient},
                                   {{0, tokens}, down_.value.blocking.rows}, options);
}

}  // namespace dos::nn
