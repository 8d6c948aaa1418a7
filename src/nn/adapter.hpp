// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/linear/low_rank_codelet.hpp"
#include "nn/block_buffers.hpp"
#include "nn/parameter_refs.hpp"
#include "nn/urgency.hpp"

namespace dos::nn {

/// What a pair of matrices of low rank adds to a product (shape::Adapters). Both are ordinary
/// parameters, and between = x a^T, [tokens, parts * rank], an ordinary buffer of the block.
class Adapter {
 public:
  /// Of the matrix "<module>.weight", which has adapters.
  Adapter(const tensor::ParameterSet& set, const std::string& module);

  /// Adds to rows of y what x gives; leaves `between` in `kept`.
  void forward(rt::Submitter& submitter, const codelets::RowRange& rows, const rt::Handle& x,
               const rt::Handle& y, const BlockBuffers& kept, const Urgency& urgency) const;
  /// `between` alone.
  void recompute(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                 const BlockBuffers& kept, const Urgency& urgency) const;

  /// Adds to dx; leaves the gradient of `between` in `gradients`.
  void backward_data(rt::Submitter& submitter, Index tokens, const rt::Handle& dy,
                     const rt::Handle& dx, const BlockBuffers& gradients,
                     const Urgency& urgency) const;

  /// The two ends of the product.
  struct Ends {
    const rt::Handle& x;
    const rt::Handle& dy;
  };
  /// The gradients of both matrices, where they are trained, added to what is there if
  /// `accumulate`; after backward_data().
  void backward_weights(rt::Submitter& submitter, Index tokens, const Ends& ends,
                        const BlockBuffers& kept, const BlockBuffers& gradients, bool accumulate,
                        const Urgency& urgency) const;

 private:
  std::string label_;
  std::string between_;
  MatrixParameter down_;
  MatrixParameter up_;
  codelets::LowRankShape shape_;
};

}  // namespace dos::nn
