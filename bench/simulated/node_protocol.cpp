// SPDX-License-Identifier: Apache-2.0
#include "simulated/node_protocol.hpp"

namespace dos::bench {

std::vector<Index> deal(const std::vector<sched::Subgroup>& subgroups, Index gpus) {
  std::vector<Index> users;
  Index small = 0;
  Index large = 0;
  for (const sched::Subgroup& each : subgroups)
    users.push_back((each.params > subgroups.front().params ? large++ : small++) % gpus);
  return users;
}

}  // namespace dos::bench
