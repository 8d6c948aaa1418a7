// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <math.h>

#include <type_traits>

#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// One AdamW step (Loshchilov & Hutter, "Decoupled weight decay regularization", ICLR'19),
/// everything that depends on the step computed once by the optimizer.
struct AdamWStep {
  float lr;
  float beta1;
  float beta2;
  float eps;
  float weight_decay;
  float inv_bias1;  ///< 1 / (1 - beta1^t), t counted from 1
  float inv_bias2;  ///< 1 / (1 - beta2^t)
};
static_assert(std::is_trivially_copyable_v<AdamWStep>);

/// The update of one element; `g` is the clipped gradient. Shared by every device. Internal
/// linkage, and the C function instead of std::sqrt: this header is compiled for several
/// instruction sets.
[[gnu::always_inline]] static inline void adamw_element(float& p, float& m, float& v, float g,
                                                        const AdamWStep& s) {
  m = s.beta1 * m + (1.0F - s.beta1) * g;
  v = s.beta2 * v + (1.0F - s.beta2) * g * g;
  p -= s.lr * (m * s.inv_bias1 / (sqrtf(v * s.inv_bias2) + s.eps) + s.weight_decay * p);
}

/// Updates p, m, v [count] with gradient g * clip. A NaN `clip` leaves everything as it is.
/// 16 bytes read and 12 written a parameter.
template <simd::Isa>
void adamw_cpu(const AdamWStep& step, Index count, float clip, const float* g, float* p, float* m,
               float* v);

}  // namespace dos::codelets
