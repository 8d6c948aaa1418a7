// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "models/training_run.hpp"

namespace dos::test {

/// Losses, norms, values, gradients and moments after some steps. Equal: of the same bits.
struct TrainingOutcome {
  std::vector<double> scalars;
  std::vector<float> elements;

  bool operator==(const TrainingOutcome& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
    };
    return same(scalars, other.scalars) && same(elements, other.elements);
  }
};

/// Trains for three steps of two micro-batches of random tokens.
inline TrainingOutcome train(TrainingRun& run) {
  constexpr Index kSteps = 3;
  const RunOptions& options = run.options();
  run.initialise(7);
  const Philox random(11);
  std::vector<std::int32_t> tokens(
      static_cast<std::size_t>(2 * options.shape.batch * (options.model.context + 1)));
  TrainingOutcome outcome;
  for (Index step = 1; step <= kSteps; ++step) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(random.uniform(i, static_cast<std::uint64_t>(step)) *
                                            static_cast<double>(options.model.vocabulary));
    outcome.scalars.push_back(run.gradients(tokens));
    outcome.scalars.push_back(run.update(step, 1e-2));
  }
  outcome.elements = run.everything();
  return outcome;
}

inline TrainingOutcome train(const RunOptions& options) {
  TrainingRun run(options);
  return train(run);
}

}  // namespace dos::test
