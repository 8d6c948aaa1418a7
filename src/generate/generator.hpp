// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "generate/sampler.hpp"
#include "inference/trained_model.hpp"
#include "models/continuation.hpp"

namespace dos::generate {

/// Continues token sequences with a trained model.
class Generator {
 public:
  /// What sequences of `prompt` tokens take that grow by `count`, computed in `type`: a context of
  /// so many, at most the model's.
  static inference::Use use(const train::ModelSource& source, Index prompt, Index count,
                            DType type = DType::kF32);

  /// Allocates what `use` says, and loads the model's parameters. The session must outlive the
  /// object.
  Generator(rt::Session& session, const train::ModelSource& source, const inference::Use& use);

  /// Appends `count` tokens to `tokens` (at least one), each drawn from what the model makes of at
  /// most the last tokens that its use has room for; calls `grown` after each. A new token alone is
  /// computed, unless there is no room for all any more: then the last tokens move on by one, every
  /// one of them has another place and other tokens before it, and all are computed again. Draws
  /// the first `vocabulary` tokens only, however many the model has; stops early after one of
  /// `ends`.
  void generate(std::vector<std::int32_t>& tokens, Index count, const Sampler& sampler,
                Index vocabulary, std::span<const Index> ends, const std::function<void()>& grown);

 private:
  shape::ModelConfig config_;
  inference::TrainedModel trained_;
  models::Continuation continuation_;
};

}  // namespace dos::generate
