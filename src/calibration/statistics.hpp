// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "base/types.hpp"

namespace dos::calibration {

/// Repeated readings of one number.
struct Summary {
  double median = 0;
  double spread = 0;  ///< the interquartile range, as a part of the median
  Index rounds = 0;
};

/// Quartiles are interpolated linearly between the sorted values: of n values the quantile q lies
/// at place q (n - 1), counted from 0. Pre: at least one value, all positive and finite.
Summary summarise(std::vector<double> values);

/// How long to go on.
struct Effort {
  Index rounds = 9;            ///< readings of an attempt
  Index attempts = 3;          ///< at most, while the readings are too noisy
  double most_spread = 0.1;    ///< what is too noisy: a larger spread than this
  double least_seconds = 0.2;  ///< of one reading: what it measures is repeated until then
};

/// Takes attempts of `effort.rounds` readings until the spread of one is not above the limit.
/// Returns that one, or of all attempts the one with the least spread.
Summary repeat(const Effort& effort, const std::function<double()>& read);

}  // namespace dos::calibration
