// SPDX-License-Identifier: Apache-2.0
#include "codelets/reduce/reduce.hpp"

namespace dos::codelets {

ClipResult combine_norm(std::span<const double> sums, float max_norm, float previous) {
  double total = 0;
  for (const double sum : sums) total += sum;
  return clip_factor(total, max_norm, previous);
}

}  // namespace dos::codelets
