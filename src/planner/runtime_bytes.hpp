// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planner/memory.hpp"

namespace dos::planner {

/// What a rank takes of host memory beside its buffers and its program, for buffers of so many
/// bytes: records of buffers and of tasks that wait, and the kernel's of pages. As
/// fit::estimate_unregistered() counts it, but for pieces of matrices, which are taken as large as
/// the largest subgroup, and gradients of one micro-batch (tests/fit/plan_agreement_test.cpp).
units::Bytes runtime_bytes(const shape::Model& model, const Deployment& layout,
                           const PlanSettings& settings, const sched::Problem& problem,
                           units::Bytes registered);

/// Buffers of a rank that checkpoints are written through.
units::Bytes checkpoint_buffers(const PlanSettings& settings, const sched::Problem& problem);

}  // namespace dos::planner
