// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/embedding/embedding_codelet.hpp"
#include "codelets/layernorm/layernorm_codelet.hpp"
#include "nn/urgency.hpp"

/// What differs between families of decoders beside their blocks.
namespace dos::nn {

/// From tokens to the first residual stream.
class Stem {
 public:
  Stem() = default;
  Stem(const Stem&) = delete;
  Stem& operator=(const Stem&) = delete;
  virtual ~Stem() = default;

  /// y[sequences * context, width] of tokens[sequences, context + 1] (I32).
  virtual void forward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
                       const rt::Handle& tokens, const rt::Handle& y,
                       const Urgency& urgency) const = 0;

  /// The gradients of its tables that are trained, added to what is there if `accumulate`; that of
  /// the token table always where the vocabulary projection, tied to it, has written it before.
  virtual void backward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
                        const rt::Handle& tokens, const rt::Handle& dy, bool accumulate,
                        const Urgency& urgency) const = 0;
};

/// A normalisation of each token's values.
class Norm {
 public:
  Norm() = default;
  Norm(const Norm&) = delete;
  Norm& operator=(const Norm&) = delete;
  virtual ~Norm() = default;

  /// y[tokens, width] from x; FP32 statistics[tokens, n] for backward.
  virtual void forward(rt::Submitter& submitter, const codelets::NormShape& shape,
                       const rt::Handle& x, const rt::Handle& y, const rt::Handle& statistics,
                       const Urgency& urgency) const = 0;

  /// Where backward reads and writes; `residual`, the gradient that by-passes the norm, may be
  /// null.
  struct Gradients {
    const rt::Handle& dy;
    const rt::Handle* residual;
    const rt::Handle& dx;
  };
  /// dx = residual + gradient through the norm, then the gradients of its parameters, if they are
  /// trained, added to what is there if `accumulate`.
  virtual void backward(rt::Submitter& submitter, const codelets::NormShape& shape,
                        const rt::Handle& x, const rt::Handle& statistics,
                        const Gradients& gradients, bool accumulate,
                        const Urgency& urgency) const = 0;
};

}  // namespace dos::nn
