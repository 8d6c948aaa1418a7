// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos {

/// Elements from the start of one row of logits to the start of the next: the vocabulary, filled up
/// to a multiple of 64. The fast kernels of GPUs take rows that start on 16 bytes, which those of
/// an odd vocabulary do not; with 64 elements every row starts on 128 bytes, a line of their
/// caches, in BF16 too. No operation reads or writes what fills a row up.
constexpr Index logits_stride(Index vocabulary) {
  constexpr Index kMultiple = 64;
  return ceil_div(vocabulary, kMultiple) * kMultiple;
}

}  // namespace dos
