// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/types.hpp"

namespace dos::generate {

/// How the next token is drawn.
struct SamplingOptions {
  double temperature = 0.8;  ///< 0 takes the most likely token
  Index top_k = 0;           ///< only the k most likely tokens; 0: all
  double top_p = 1.0;        ///< only the most likely tokens that hold this probability together
  /// Logits of tokens that are there already are divided by it where they are positive, else
  /// multiplied, before the temperature; 1 changes nothing.
  double repetition_penalty = 1.0;
  std::uint64_t seed = 0;

  /// Throws Error naming the first option out of range.
  void validate() const;
};

/// Draws tokens; a pure function of (seed, position, logits, tokens before).
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  /// The token after position `position`, where `before` are those that repetition_penalty counts;
  /// those without a logit are left out. Ties go to the lower token. Throws Error when a logit is
  /// NaN or the highest is infinite.
  [[nodiscard]] std::int32_t draw(std::span<const float> logits, Index position,
                                  std::span<const std::int32_t> before = {}) const;

 private:
  /// Pre: logits as draw() takes them.
  [[nodiscard]] std::int32_t pick(std::span<const float> logits, Index position) const;

  SamplingOptions options_;
};

}  // namespace dos::generate
