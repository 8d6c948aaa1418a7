// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/cross_entropy/cross_entropy_codelet.hpp"
#include "codelets/linear/linear_codelet.hpp"
#include "nn/parameter_refs.hpp"
#include "nn/urgency.hpp"

namespace dos::nn {

/// Vocabulary projection (no bias) and cross entropy, over chunks of rows, so that the logits of a
/// whole lane never exist at once.
class LossHead {
 public:
  /// `weight_name` names a [vocabulary, width] matrix: the token table when weights are tied.
  LossHead(const tensor::ParameterSet& set, const std::string& weight_name);

  /// Buffers of one lane.
  struct Lane {
    const rt::Handle& x;       ///< [rows, width]: the last norm's output
    const rt::Handle& tokens;  ///< I32 [sequences, context + 1]
    const rt::Handle& logits;  ///< [chunk rows, shape::logits_stride(vocabulary)]
    const rt::Handle& loss;    ///< FP64 [1], added to
    Index rows;                ///< sequences * context
    Index context;
  };

  /// Adds the lane's summed loss.
  void forward(rt::Submitter& submitter, const Lane& lane, const Urgency& urgency) const;

  /// Adds the lane's summed loss; dx and the weight's gradient, if it is trained, are those of
  /// scale * summed loss. The first chunk overwrites the weight's gradient unless `accumulate`.
  /// Logits count as forward; the submitter's tag stays the caller's.
  void forward_backward(rt::Submitter& submitter, const Lane& lane, const rt::Handle& dx,
                        float scale, bool accumulate, const Urgency& urgency) const;

  /// The logits of one row of x, to the first row of `logits`.
  void project_row(rt::Submitter& submitter, Index row, const rt::Handle& x,
                   const rt::Handle& logits, const Urgency& urgency) const;

 private:
  [[nodiscard]] codelets::CrossEntropyRows chunk(const Lane& lane, Index first_row) const;

  MatrixParameter weight_;
  Index stride_;
};

}  // namespace dos::nn
