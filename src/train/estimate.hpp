// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/model.hpp"
#include "optim/optimizer.hpp"
#include "tensor/parameter_set.hpp"
#include "train/rank_share.hpp"

namespace dos::train {

/// Bytes of host memory that a training run registers on a rank, by category, before anything is
/// allocated: equal to what the memory ledger counts afterwards.
rt::MemoryBytes estimate_training(const models::ModelConfig& model, const models::RunShape& shape,
                                  const tensor::Layout& layout, const tensor::ParameterTypes& types,
                                  const optim::OptimizerOptions& optimizer, Index workers,
                                  Index run_ahead, const RankShare& share = {});

/// Throws Error unless every size of the run stays so small that the sums of estimate_training()
/// cannot overflow.
void expect_countable(const models::ModelConfig& model, const models::RunShape& shape);

/// One line a category, and the total against what is available; no newline at the end.
std::string memory_table(const rt::MemoryBytes& bytes, Index available);

/// "rank 0 1.2 GiB, rank 1 1.1 GiB": what ranks with the others' shares register in all.
std::string totals_by_rank(const std::vector<rt::MemoryBytes>& bytes);

/// Throws Error with the table and the options that would help unless `bytes` fit into `available`.
void expect_fits(const rt::MemoryBytes& bytes, Index available);

}  // namespace dos::train
