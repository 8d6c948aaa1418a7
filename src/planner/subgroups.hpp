// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sched/workload.hpp"
#include "shape/model.hpp"

namespace dos::planner {

/// The subgroups that the rank with most of them updates, as train_gpt cuts the model
/// (shape/cutter.hpp) and deals them to `ranks` equal ranks (shape/owners.hpp), with the room that
/// GPUs have for them (base/common_sizes.hpp). Throws Error where
/// `subgroup_params` cannot cut a matrix, or makes more than sched::kMostPieces. Pre: ranks at
/// least 1.
std::vector<sched::Subgroup> cut_for_rank(const shape::Model& model, Index ranks,
                                          Index subgroup_params);

/// The part of their room that they fill. Pre: not empty.
double filled(const std::vector<sched::Subgroup>& subgroups);

/// Parameters of a subgroup, at most `most` and no less than half of it: so large that subgroups
/// fill the memory that GPUs have in their place. What is not filled holds no states.
Index fullest_subgroups(const shape::Model& model, Index ranks, Index most);

/// The subgroups of DeepSpeed's ZeRO-3 (stage3.py, _create_fp16_sub_groups): a rank's parts of
/// whole tensors are put together until they have at least `subgroup_params` parameters, so sizes
/// differ and a large tensor is not cut.
std::vector<sched::Subgroup> cut_as_published(const shape::Model& model, Index ranks,
                                              Index subgroup_params);

}  // namespace dos::planner
