// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/types.hpp"

namespace dos::train {

/// How the next token is drawn.
struct SamplingOptions {
  double temperature = 0.8;  ///< 0 takes the most likely token
  Index top_k = 0;           ///< only the k most likely tokens; 0: all
  double top_p = 1.0;        ///< only the most likely tokens that hold this probability together
  std::uint64_t seed = 0;

  /// Throws Error naming the first option out of range.
  void validate() const;
};

/// Draws tokens; a pure function of (seed, position, logits).
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  /// The token after position `position`. Ties go to the lower token. Throws Error when a logit is
  /// NaN or the highest is infinite.
  [[nodiscard]] std::int32_t draw(std::span<const float> logits, Index position) const;

 private:
  SamplingOptions options_;
};

}  // namespace dos::train
