// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/rmsnorm/rmsnorm_codelet.hpp"
#include "nn/lane_shape.hpp"
#include "nn/parameter_refs.hpp"
#include "nn/parts.hpp"

namespace dos::nn {

/// Root-mean-square normalisation with weight[width], named "<name>.weight". One number of
/// statistics a token.
class RmsNorm final : public Norm {
 public:
  RmsNorm(const tensor::ParameterSet& set, std::string name, double epsilon);

  void forward(rt::Submitter& submitter, const codelets::NormShape& shape, const rt::Handle& x,
               const rt::Handle& y, const rt::Handle& statistics,
               const Urgency& urgency) const override;
  void backward(rt::Submitter& submitter, const codelets::NormShape& shape, const rt::Handle& x,
                const rt::Handle& statistics, const Gradients& gradients, bool accumulate,
                const Urgency& urgency) const override;

 private:
  [[nodiscard]] codelets::RmsNormShape rows(const codelets::NormShape& shape) const;

  std::string name_;
  VectorParameter weight_;
  float epsilon_;
};

/// The same for each head of queries and keys, in place in qkv[tokens, row]: "<name>.weight" holds
/// the scale of a query's head, then of a key's.
class HeadNorm {
 public:
  /// Heads that lie side by side in a row of qkv, queries first.
  struct Heads {
    Index queries;
    Index keys;
    Index size;
    Index row;  ///< elements of a row of qkv
  };
  HeadNorm(const tensor::ParameterSet& set, std::string name, const Heads& heads, double epsilon);

  /// What forward keeps for backward: the heads as they were, and a number of each.
  struct Kept {
    const rt::Handle& heads;
    const rt::Handle& statistics;
  };
  /// Of a sequence that goes on, qkv has the rows of all its tokens.
  void forward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& qkv,
               const Kept& kept, const Urgency& urgency) const;
  /// In place in dqkv; the gradient of the weight, if it is trained, is added to what is there if
  /// `accumulate`.
  void backward(rt::Submitter& submitter, Index tokens, const rt::Handle& dqkv, const Kept& kept,
                bool accumulate, const Urgency& urgency) const;

 private:
  [[nodiscard]] codelets::RmsNormShape vectors(Index tokens) const;

  std::string name_;
  VectorParameter weight_;
  Heads heads_;
  float epsilon_;
};

}  // namespace dos::nn
