// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "data/loader.hpp"

namespace dos::data {

/// Samples of several loaders in fixed proportions. In each round of kRound samples every loader
/// gives a number of them that its weight says, rounded so that all are used, in an order drawn
/// from (seed, round); its own samples come in its own order. So, as a loader's, a sample is a pure
/// function of (seed, index). One loader alone gives its samples as they are.
class Mixture {
 public:
  static constexpr Index kRound = 10'000;

  struct Part {
    Loader loader;
    double weight = 1;
    std::string name;  ///< for messages
  };

  /// Pre: at least one part, positive weights. Throws Error when a weight is too small for one
  /// sample a round.
  Mixture(std::vector<Part> parts, std::uint64_t seed);

  /// As Loader::sample().
  void sample(Index index, std::span<std::int32_t> out) const;
  /// As Loader::micro_batch().
  [[nodiscard]] std::vector<std::int32_t> micro_batch(const BatchShape& shape,
                                                      const BatchPosition& position) const;

  /// The targets that count of `count` samples from `first` on.
  [[nodiscard]] Index targets(Index first, Index count) const;
  /// Whether a part has a mask: else every token counts.
  [[nodiscard]] bool has_mask() const;

  /// Samples that the parts give in a round.
  [[nodiscard]] std::vector<Index> shares() const;

 private:
  /// A sample of a part.
  struct Place {
    const Loader& loader;
    Index index;
  };
  [[nodiscard]] Place place_of(Index index) const;

  std::vector<Part> parts_;
  std::vector<Index> first_;  ///< of the round's slots, those of each part; one more behind
  std::uint64_t seed_;
};

}  // namespace dos::data
