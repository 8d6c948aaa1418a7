// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sched/policy.hpp"

namespace dos::sched {

/// Every k-th subgroup, by count, is streamed to the GPU, the others are updated on the CPU.
/// Without options.stride, k is the integer above 1 / share of the linear programme. With
/// options.published: one buffer set, a separate downcast, a host thread that waits for copies
/// (arXiv 2410.21316, its DeepSpeed fork, stage3.py); a problem with one GPU.
Plan plan_dos_stride(const Problem& problem, const PolicyOptions& options);

}  // namespace dos::sched
