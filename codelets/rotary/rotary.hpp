// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <math.h>

#include "base/host_device.hpp"
#include "base/types.hpp"
#include "codelets/cuda/context.hpp"
#include "codelets/simd/isa.hpp"

/// Rotary position embeddings (Su et al., "RoFormer", arXiv 2104.09864): element i of a head and
/// element i + head_size / 2 are turned together, by an angle that grows with the token's position.
namespace dos::codelets {

/// The most elements of a head.
inline constexpr Index kLargestRotaryHead = 256;

/// How fast pairs turn: pair i by theta^(-2i/d) a token, of d elements. With factor > 1, what turns
/// less than low_freq_factor times in original_context tokens turns `factor` times slower, what
/// turns more than high_freq_factor times as before, what is between at a speed between.
struct RotarySpeed {
  double theta;
  double factor;
  double low_freq_factor;
  double high_freq_factor;
  double original_context;
};

/// Which heads turn: the first `heads` of each row of x[sequences * tokens, stride], whose tokens
/// stand at the positions first .. first + tokens - 1.
struct RotaryShape {
  Index sequences;
  Index tokens;
  Index heads;
  Index head_size;  ///< even, at most kLargestRotaryHead
  Index stride;
  RotarySpeed speed;
  bool back;  ///< the other way round: from the gradient of what forward made to that of its input
  Index first = 0;
};

/// Turns, of 2 pi each, that a pair makes a token.
DOS_HD static double turns_of_pair(const RotarySpeed& speed, Index pair, Index head_size) {
  constexpr double kTurn = 6.283185307179586476925;
  const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(head_size);
  const double turns = ::pow(speed.theta, exponent) / kTurn;
  if (speed.factor == 1) return turns;
  const double in_context = turns * speed.original_context;
  const double share =
      (in_context - speed.low_freq_factor) / (speed.high_freq_factor - speed.low_freq_factor);
  const double kept = share < 0 ? 0 : share > 1 ? 1 : share;
  return turns * (kept + (1 - kept) / speed.factor);
}

struct Direction {
  float cosine;
  float sine;
};

/// The direction after so many turns, at most 2^50: each number within 2^-23. Branch-free, so that
/// loops over it vectorise. The whole quarters of a turn are taken off in double precision; on
/// the eighth that is left on either side, |x| <= pi / 4, sin x = x + x^3 s(x^2) and cos x = 1 -
/// x^2 / 2 + x^4 c(x^2), with the minimax polynomials of Cephes (sinf.c, S. Moshier), which are
/// within 2^-25 there.
DOS_HD static Direction direction(double turns) {
  constexpr double kRounder = 0x1.8p+52;  // adding it rounds to an integer, kept in the low bits
  constexpr double kQuarter = 1.570796326794896619231;
  const double quarters = 4 * turns;
  const double shifted = quarters + kRounder;
  const auto quadrant = static_cast<unsigned>(__builtin_bit_cast(unsigned long long, shifted));
  const auto x = static_cast<float>((quarters - (shifted - kRounder)) * kQuarter);
  const float square = x * x;
  float s = -1.9515295891e-4F;
  s = s * square + 8.3321608736e-3F;
  s = s * square - 1.6666654611e-1F;
  const float sine = x + x * square * s;
  float c = 2.443315711809948e-5F;
  c = c * square - 1.388731625493765e-3F;
  c = c * square + 4.166664568298827e-2F;
  const float cosine = 1.0F - 0.5F * square + square * square * c;
  const bool is_odd = (quadrant & 1U) != 0;
  const float along = is_odd ? sine : cosine;
  const float across = is_odd ? cosine : sine;
  return {((quadrant + 1U) & 2U) != 0 ? -along : along, (quadrant & 2U) != 0 ? -across : across};
}

/// Turns the heads of x in place: T is float or BF16, computed in FP32 and rounded once. A value
/// that is not finite spoils its pair.
template <simd::Isa, class T>
void rotary_cpu(const RotaryShape& shape, T* x);

/// On a GPU (cuda/context.hpp).
const char* rotary_cuda(const CudaContext& context, DType type, const RotaryShape& shape, void* x);

}  // namespace dos::codelets
