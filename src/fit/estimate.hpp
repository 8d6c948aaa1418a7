// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fit/unregistered.hpp"
#include "models/demand.hpp"
#include "optim/optimizer_options.hpp"
#include "planner/memory.hpp"
#include "ranks/share.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::fit {

/// Bytes of host memory that a training run registers on a rank, by category, before anything is
/// allocated: equal to what the memory ledger counts afterwards.
rt::MemoryBytes estimate_training(const shape::ModelConfig& model, const shape::RunShape& shape,
                                  const shape::Layout& layout, const tensor::ParameterTypes& types,
                                  const optim::OptimizerOptions& optimizer,
                                  const models::WorkerCount& workers, Index run_ahead,
                                  const ranks::RankShare& share = {});

/// Throws Error unless every size of the run stays so small that the sums of estimate_training()
/// cannot overflow.
void expect_countable(const shape::ModelConfig& model, const shape::RunShape& shape);

/// The lanes of the one with most tokens of several devices, as a run of its own.
shape::RunShape device_part(const shape::RunShape& shape, Index devices);

/// What one of `devices` GPUs that share the lanes holds at the peak of forward and backward, in
/// the planner's categories: the one with most tokens. Weights and gradients that the rank keeps
/// are on each of them. In memory `available` that lacks room for all gradients, those of subgroups
/// that the CPU updates are taken to leave during backward, unless they are summed over several
/// micro-batches; then as many weights pass as have to, if they may.
planner::MemoryUse estimate_device(const shape::ModelConfig& model, const shape::RunShape& shape,
                                   const shape::Layout& layout, const tensor::ParameterTypes& types,
                                   const tensor::Ownership& ownership, Index accumulate,
                                   Index devices, units::Bytes available,
                                   bool weights_may_pass = true);

/// "rank 0 1.2 GiB, rank 1 1.1 GiB": what ranks need in all.
std::string totals_by_rank(const std::vector<units::Bytes>& totals);

/// GPU memory of the states of the largest subgroup that is trained while it is updated there; with
/// its gradient and working parameters where the model runs on the CPU, with the FP32 sum of all
/// ranks' gradients where there are several. Subgroups `ahead` have both banks of states there.
Index largest_update_bytes(const shape::Layout& layout, const tensor::ParameterTypes& types,
                           const optim::OptimizerOptions& optimizer, bool model_on_host,
                           Index ranks, std::span<const Index> ahead = {});

/// The bytes by category, and what is not registered, for memory_table().
planner::MemoryUse host_use(const rt::MemoryBytes& bytes, const Unregistered& rest,
                            Index available);

/// format_bytes(), also of what no machine has.
std::string size_text(units::Bytes bytes);

/// One line a category that is there, then total and what is available; no newline at the end.
std::string memory_table(const planner::MemoryUse& use);

}  // namespace dos::fit
