// SPDX-License-Identifier: Apache-2.0
#include "planner/subgroups.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sched/cut.hpp"

namespace dos::planner {

std::vector<sched::Subgroup> cut_evenly(const ModelShape& shape, Index ranks,
                                        Index subgroup_params) {
  require(ranks >= 1 && subgroup_params >= 1, "ranks and sizes are positive");
  std::vector<Index> parts;
  std::vector<Index> depths;
  for (std::size_t i = 0; i < shape.tensors.size();) {
    const Index depth = shape.tensors[i].depth;
    Index params = 0;
    for (; i < shape.tensors.size() && shape.tensors[i].depth == depth; ++i)
      params += shape.tensors[i].params;
    parts.push_back(ceil_div(params, ranks));
    depths.push_back(depth);
  }
  sched::expect_few_subgroups(parts, subgroup_params, "sched.subgroup_params =");
  std::vector<sched::Subgroup> subgroups;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Index mine = parts[i];
    const Index pieces = ceil_div(mine, std::min(mine, subgroup_params));
    for (Index piece = 0; piece < pieces; ++piece)
      subgroups.push_back({mine / pieces + (piece < mine % pieces ? 1 : 0), depths[i]});
  }
  return subgroups;
}

std::vector<sched::Subgroup> cut_as_published(const ModelShape& shape, Index ranks,
                                              Index subgroup_params) {
  require(ranks >= 1 && subgroup_params >= 1, "ranks and sizes are positive");
  std::vector<sched::Subgroup> subgroups;
  sched::Subgroup open;
  for (const TensorSize& tensor : shape.tensors) {
    if (open.params == 0) open.depth = tensor.depth;
    open.params += ceil_div(tensor.params, ranks);
    if (open.params < subgroup_params) continue;
    subgroups.push_back(open);
    open = {};
  }
  if (open.params > 0) subgroups.push_back(open);
  return subgroups;
}

}  // namespace dos::planner
