// SPDX-License-Identifier: Apache-2.0
#include "nn/loss_head.hpp"

#include <algorithm>

#include "shape/activation_sets.hpp"

namespace dos::nn {
namespace {

constexpr const char* kLabel = "loss_head";

}  // namespace

LossHead::LossHead(const tensor::ParameterSet& set, const std::string& weight_name)
    : weight_(set, weight_name), stride_(shape::logits_stride(weight_.value.blocking.rows)) {}

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
    codelets::submit<codelets::LogitsForward>(
        submitter, {.x = lane.x, .logits = lane.logits, .w = weight_.value},
        {{first, rows.rows}, stride_}, options);
    codelets::submit<codelets::CrossEntropyForward>(
        submitter, {.logits = lane.logits, .tokens = lane.tokens, .loss = lane.loss}, rows,
        options);
    first += rows.rows;
  }
}

void LossHead::forward_backward(rt::Submitter& submitter, const Lane& lane, const rt::Handle& dx,
                                float scale, bool accumulate, const Urgency& urgency) const {
  const rt::TaskOptions options{.priority = urgency.path, .label = kLabel};
  for (Index first = 0; first < lane.rows;) {
    const codelets::CrossEntropyRows rows = chunk(lane, first);
    const codelets::StridedRows range{{first, rows.rows}, stride_};
    const rt::TaskTag tag = submitter.tag();
    submitter.set_phase(rt::Phase::kForward);
    codelets::submit<codelets::LogitsForward>(
        submitter, {.x = lane.x, .logits = lane.logits, .w = weight_.value}, range, options);
    submitter.set_tag(tag);
    codelets::submit<codelets::CrossEntropyForwardBackward>(
        submitter, {.logits = lane.logits, .tokens = lane.tokens, .loss = lane.loss}, {rows, scale},
        options);
    codelets::submit<codelets::LogitsBackwardData>(
        submitter, {.dlogits = lane.logits, .dx = dx, .w = weight_.value}, range, options);
    if (weight_.gradient)
      codelets::submit_linear_weight(submitter, accumulate || first > 0,
                                     {.dy = lane.logits, .x = lane.x, .dw = *weight_.gradient},
                                     range, {.priority = urgency.off_path, .label = kLabel});
    first += rows.rows;
  }
}

void LossHead::project_row(rt::Submitter& submitter, Index row, const rt::Handle& x,
                           const rt::Handle& logits, const Urgency& urgency) const {
  codelets::submit<codelets::LogitsForward>(
      submitter, {.x = x, .logits = logits, .w = weight_.value}, {{row, 1}, stride_},
      {.priority = urgency.path, .label = kLabel});
}

}  // namespace dos::nn
