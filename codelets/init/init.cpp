// SPDX-License-Identifier: Apache-2.0
#include "codelets/init/init.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace dos::codelets {

void fill_cpu(Index count, float value, float* out) {
  std::fill_n(out, count, value);
}

void init_random_cpu(const RandomInit& init, Index count, float* out) {
  const Philox random(init.seed);
  const bool is_normal = init.distribution == Distribution::kNormal;
  for (Index i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint64_t>(init.first_index + i);
    out[i] =
        init.spread * (is_normal ? random.normal(index, init.stream)
                                 : static_cast<float>(2 * random.uniform(index, init.stream) - 1));
  }
}

void round_cpu(Index count, const float* x, BF16* out) {
  std::transform(x, x + count, out, [](float value) { return to_bf16(value); });
}

}  // namespace dos::codelets
