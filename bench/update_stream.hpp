// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::bench {

/// The memory traffic of adamw_cpu with next to no arithmetic: adds g to p, m and v. 16 bytes read
/// and 12 written a parameter.
template <simd::Isa>
void update_stream(Index count, const float* g, float* p, float* m, float* v);

}  // namespace dos::bench
