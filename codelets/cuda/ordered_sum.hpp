// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/types.hpp"

namespace dos::codelets::cuda {

/// Addresses of single numbers that lie in buffers of their own, as many as one launch takes: they
/// travel as its arguments (4 KiB at most).
inline constexpr Index kMostScalars = 256;
template <class T>
struct ScalarAddresses {
  T* at[kMostScalars];
  int count;
};

/// The `batch`-th batch of addresses.
template <class T>
ScalarAddresses<T> scalar_batch(std::span<T* const> all, Index batch) {
  ScalarAddresses<T> result{};
  const Index first = batch * kMostScalars;
  const Index left = std::ssize(all) - first;
  result.count = static_cast<int>(left < kMostScalars ? left : kMostScalars);
  for (int i = 0; i < result.count; ++i) result.at[i] = all[static_cast<std::size_t>(first + i)];
  return result;
}

/// Batches that hold `count` addresses; one even for none, so that its launch ends the sum.
constexpr Index scalar_batches(Index count) {
  return count == 0 ? 1 : ceil_div(count, kMostScalars);
}

}  // namespace dos::codelets::cuda
