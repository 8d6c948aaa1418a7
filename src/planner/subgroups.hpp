// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "planner/model_shape.hpp"
#include "sched/workload.hpp"

namespace dos::planner {

/// One rank's subgroups when `ranks` ranks own equal parts (ZeRO-3): the parameters of each depth,
/// cut into near-equal pieces of at most `subgroup_params`. Throws Error where that makes
/// more than sched::kMostSubgroups. Pre: both at least 1.
std::vector<sched::Subgroup> cut_evenly(const ModelShape& shape, Index ranks,
                                        Index subgroup_params);

/// The subgroups of DeepSpeed's ZeRO-3 (stage3.py, _create_fp16_sub_groups): a rank's parts of
/// whole tensors are put together until they have at least `subgroup_params` parameters, so sizes
/// differ and a large tensor is not cut.
std::vector<sched::Subgroup> cut_as_published(const ModelShape& shape, Index ranks,
                                              Index subgroup_params);

}  // namespace dos::planner
