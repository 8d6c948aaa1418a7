// SPDX-License-Identifier: Apache-2.0
#include "nn/embedding.hpp"

namespace dos::nn {
namespace {

constexpr const char* kLabel = "embedding";

}  // namespace

Embedding::Embedding(const tensor::ParameterSet& set, const std::string& token_name,
                     const std::string& position_name)
    : token_(set, token_name + ".weight"), position_(set, position_name + ".weight") {}

void Embedding::forward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
                        const rt::Handle& tokens, const rt::Handle& y,
                        const Urgency& urgency) const {
  codelets::submit_embedding_forward(submitter, shape, tokens, token_.value, position_.value, y,
                                     {.priority = urgency.path, .label = kLabel});
}

void Embedding::backward(rt::Submitter& submitter, const codelets::EmbeddingShape& shape,
                         const rt::Handle& tokens, const rt::Handle& dy, bool accumulate,
                         const Urgency& urgency) const {
  const rt::TaskOptions options{.priority = urgency.off_path, .label = kLabel};
  codelets::submit_embedding_backward_token(submitter, shape, tokens, dy, token_.gradient, options);
  codelets::submit_embedding_backward_position(submitter, shape, dy, accumulate, position_.gradient,
                                               options);
}

}  // namespace dos::nn
