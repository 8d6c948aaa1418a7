// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/embedding/embedding_codelet.hpp"
#include "nn/parameter_refs.hpp"
#include "nn/priority.hpp"

namespace dos::nn {

/// Sum of a learned token and a learned position embedding.
class Embedding {
 public:
  Embedding(const tensor::ParameterSet& set, const std::string& token_name,
            const std::string& position_name);

  void forward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
               const rt::Handle& tokens, const rt::Handle& y, const Urgency& urgency) const;

  /// The token table's gradient is always added to: with tied weights the vocabulary projection has
  /// written it before. The position table's is added to if `accumulate`.
  void backward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
                const rt::Handle& tokens, const rt::Handle& dy, bool accumulate,
                const Urgency& urgency) const;

 private:
  MatrixParameter token_;
  MatrixParameter position_;
};

}  // namespace dos::nn
