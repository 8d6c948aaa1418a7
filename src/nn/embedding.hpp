// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "nn/parameter_refs.hpp"
#include "nn/parts.hpp"

namespace dos::nn {

/// Whether the vocabulary projection has the token table for its weight, and so writes its gradient
/// before the stem does.
enum class Head : std::uint8_t { kTied, kOfItsOwn };

/// Sum of a learned token and a learned position embedding.
class Embedding final : public Stem {
 public:
  Embedding(const tensor::ParameterSet& set, const std::string& token_name,
            const std::string& position_name, Head head);

  void forward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
               const rt::Handle& tokens, const rt::Handle& y,
               const Urgency& urgency) const override;

  void backward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
                const rt::Handle& tokens, const rt::Handle& dy, bool accumulate,
                const Urgency& urgency) const override;

 private:
  MatrixParameter token_;
  MatrixParameter position_;
  Head head_;
};

/// A learned token embedding, for blocks that know positions themselves.
class TokenEmbedding final : public Stem {
 public:
  TokenEmbedding(const tensor::ParameterSet& set, const std::string& name, Head head);

  void forward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
               const rt::Handle& tokens, const rt::Handle& y,
               const Urgency& urgency) const override;

  void backward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
                const rt::Handle& tokens, const rt::Handle& dy, bool accumulate,
                const Urgency& urgency) const override;

 private:
  MatrixParameter table_;
  Head head_;
};

}  // namespace dos::nn
