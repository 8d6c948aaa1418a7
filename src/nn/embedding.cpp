// SPDX-License-Identifier: Apache-2.0
#include "nn/embedding.hpp"

namespace dos::nn {
namespace {

constexpr const char* kLabel = "embedding";

}  // namespace

Embedding::Embedding(const tensor::ParameterSet& set, const std::string& token_name,
                     const std::string& position_name, Head head)
    : token_(set, token_name + ".weight"), position_(set, position_name + ".weight"), head_(head) {}

void Embedding::forward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
                        const rt::Handle& tokens, const rt::Handle& y,
                        const Urgency& urgency) const {
  codelets::submit<codelets::EmbeddingForward>(
      submitter,
      {.tokens = tokens, .y = y, .token_table = token_.value, .position_table = position_.value},
      shape, {.priority = urgency.path, .label = kLabel});
}

void Embedding::backward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
                         const rt::Handle& tokens, const rt::Handle& dy, bool accumulate,
                         const Urgency& urgency) const {
  const rt::TaskOptions options{.priority = urgency.off_path, .label = kLabel};
  if (token_.gradient)
    codelets::submit_token_gradient(submitter, accumulate || head_ == Head::kTied,
                                    {.tokens = tokens, .dy = dy, .dtable = *token_.gradient}, shape,
                                    options);
  if (!position_.gradient) return;
  if (accumulate)
    codelets::submit<codelets::EmbeddingAccumulatePosition>(
        submitter, {.dy = dy, .dtable = *position_.gradient}, shape, options);
  else
    codelets::submit<codelets::EmbeddingBackwardPosition>(
        submitter, {.dy = dy, .dtable = *position_.gradient}, shape, options);
}

TokenEmbedding::TokenEmbedding(const tensor::ParameterSet& set, const std::string& name, Head head)
    : table_(set, name + ".weight"), head_(head) {}

void TokenEmbedding::forward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
                             const rt::Handle& tokens, const rt::Handle& y,
                             const Urgency& urgency) const {
  codelets::submit<codelets::TokenEmbeddingForward>(
      submitter, {.tokens = tokens, .y = y, .table = table_.value}, shape,
      {.priority = urgency.path, .label = kLabel});
}

void TokenEmbedding::backward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
                              const rt::Handle& tokens, const rt::Handle& dy, bool accumulate,
                              const Urgency& urgency) const {
  if (!table_.gradient) return;
  codelets::submit_token_gradient(submitter, accumulate || head_ == Head::kTied,
                                  {.tokens = tokens, .dy = dy, .dtable = *table_.gradient}, shape,
                                  {.priority = urgency.off_path, .label = kLabel});
}

}  // namespace dos::nn
