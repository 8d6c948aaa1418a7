// SPDX-License-Identifier: Apache-2.0
#include "generate/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"

namespace dos::generate {

void SamplingOptions::validate() const {
  expect(temperature >= 0 && std::isfinite(temperature),
         "--temperature must not be negative, got {}", temperature);
  expect(top_k >= 0, "--top-k must not be negative (0: all tokens), got {}", top_k);
  expect(repetition_penalty > 0 && std::isfinite(repetition_penalty),
         "--repetition-penalty must be positive (1: none), got {}", repetition_penalty);
  expect(top_p > 0 && top_p <= 1, "--top-p must lie in (0, 1], got {}", top_p);
}

Sampler::Sampler(const SamplingOptions& options) : options_(options) {
  options_.validate();
}

std::int32_t Sampler::draw(std::span<const float> logits, Index position,
                           std::span<const std::int32_t> before) const {
  require(!logits.empty(), "logits of at least one token");
  const bool usable =
      std::none_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }) &&
      std::isfinite(*std::max_element(logits.begin(), logits.end()));
  expect(usable,
         "the model's logits are not finite: the checkpoint is of a run that diverged, use an "
         "earlier one");
  if (options_.repetition_penalty == 1) return pick(logits, position);
  std::vector<float> penalised(logits.begin(), logits.end());
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  // From the logits as they are: a token that is there twice is penalised once.
  for (const std::int32_t token : before) {
    const auto place = static_cast<std::size_t>(token);
    if (token >= 0 && place < logits.size())
      penalised[place] = logits[place] > 0 ? logits[place] / penalty : logits[place] * penalty;
  }
  return pick(penalised, position);
}

std::int32_t Sampler::pick(std::span<const float> logits, Index position) const {
  if (options_.temperature == 0)
    return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto kept = options_.top_k > 0
                        ? std::min(tokens.size(), static_cast<std::size_t>(options_.top_k))
                        : tokens.size();
  // Ties go to the lower token.
  const auto comes_first = [&](std::int32_t a, std::int32_t b) {
    const float left = logits[static_cast<std::size_t>(a)];
    const float right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  };
  if (kept < tokens.size()) {
    std::ranges::nth_element(tokens, tokens.begin() + static_cast<std::ptrdiff_t>(kept),
                             comes_first);
    tokens.resize(kept);
  }
  std::ranges::sort(tokens, comes_first);
  const double highest = logits[static_cast<std::size_t>(tokens.front())];
  std::vector<double> weights;
  for (const std::int32_t token : tokens)
    weights.push_back(
        std::exp((logits[static_cast<std::size_t>(token)] - highest) / options_.temperature));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double held = 0;
  std::size_t count = 0;
  while (count < weights.size() && held < options_.top_p * total) held += weights[count++];
  double left = Philox(options_.seed).uniform(static_cast<std::uint64_t>(position)) * held;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    left -= weights[i];
    if (left < 0) return tokens[i];
  }
  return tokens[count - 1];
}

}  // namespace dos::generate
