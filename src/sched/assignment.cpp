// SPDX-License-Identifier: Apache-2.0
#include "sched/assignment.hpp"

namespace dos::sched {

std::vector<LinkTraffic> traffic_of(const UpdateCost& cost, const Assignment& assignment) {
  const auto [home, device, reader] = assignment;
  std::vector<LinkTraffic> links;
  if (home != kHost && home != device) links.push_back({home, cost.away(), cost.away()});
  if (is_resident(assignment))
    links.push_back({device, cost.host_gradient, cost.host_parameter});
  else if (is_streamed(assignment))
    links.push_back({device, cost.streamed_in(), cost.streamed_out()});
  else if (reader >= 0)
    links.push_back({reader, cost.weight, cost.gradient});
  return links;
}

}  // namespace dos::sched
