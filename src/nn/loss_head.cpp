// SPDX-License-Identifier: Apache-2.0
#include "nn/loss_head.hpp"

#include <algorithm>

#include "base/logits_stride.hpp"

namespace dos::nn {
namespace {

constexpr const char* kLabel = "loss_head";

}  // namespace

LossHead::LossHead(const tensor::ParameterSet& set, const std::string& weight_name)
    : weight_(set, weight_name + ".weight"), stride_(logits_stride(weight_.value.blocking.rows)) {}

codelets::CrossEntropyRows LossHead::chunk(const Lane& lane, Index first_row) const {
  const Index chunk_rows = lane.logits.count() / stride_;
  return {.first_row = first_row,
          .rows = std::min(chunk_rows, lane.rows - first_row),
          .context = lane.context,
          .vocabulary = weight_.value.blocking.rows,
          .stride = stride_};
}

void LossHead::forward(rt::Submitter& submitter, const Lane& lane, const Urgency& urgency) const {
  const rt::TaskOptions options{.priority = urgency.path, .label = kLabel};
  for (Index first = 0; first < lane.rows;) {
    const codelets::CrossEntropyRows rows = chunk(lane, first);
    codelets::submit_logits_forward(submitter, {first, rows.rows}, lane.x, weight_.value,
                                    {&lane.logits, stride_}, options);
    codelets::submit_cross_entropy_forward(submitter, rows, lane.logits, lane.tokens, lane.loss,
                                           options);
    first += rows.rows;
  }
}

void LossHead::forward_backward(rt::Submitter& submitter, const Lane& lane, const rt::Handle& dx,
                                float scale, bool accumulate, const Urgency& urgency) const {
  const rt::TaskOptions options{.priority = urgency.path, .label = kLabel};
  for (Index first = 0; first < lane.rows;) {
    const codelets::CrossEntropyRows rows = chunk(lane, first);
    const codelets::RowRange range{first, rows.rows};
    const codelets::RowsRef logits{&lane.logits, stride_};
    codelets::submit_logits_forward(submitter, range, lane.x, weight_.value, logits, options);
    codelets::submit_cross_entropy_forward_backward(submitter, rows, scale, lane.logits,
                                                    lane.tokens, lane.loss, options);
    codelets::submit_logits_backward_data(submitter, range, logits, weight_.value, dx, options);
    codelets::submit_linear_backward_weight(submitter, range, logits, lane.x,
                                            accumulate || first > 0, weight_.gradient,
                                            {.priority = urgency.off_path, .label = kLabel});
    first += rows.rows;
  }
}

void LossHead::project_row(rt::Submitter& submitter, Index row, const rt::Handle& x,
                           const rt::Handle& logits, const Urgency& urgency) const {
  codelets::submit_logits_forward(submitter, {row, 1}, x, weight_.value, {&logits, stride_},
                                  {.priority = urgency.path, .label = kLabel});
}

}  // namespace dos::nn
