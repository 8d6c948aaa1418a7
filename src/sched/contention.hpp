// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace dos::sched {

/// Something that runs and draws on DRAM.
struct Flow {
  double rate = 0;   ///< units a second when alone; share_dram() lowers it
  double bytes = 0;  ///< DRAM bytes a unit
  double limit = 0;  ///< rate that it cannot pass while others run; at most `rate`
  /// Whether it takes what the others leave, as one thread does beside many: a memory controller
  /// that is fair to cores serves those first that ask for little each.
  bool yields = false;
  double least = 0;  ///< bytes a second that it gets all the same: a core's fair share
  /// Whether it is served before the others, as a disk: its rate beside a busy CPU is measured
  /// (`limit`), and many requests under way hide that each takes longer.
  bool leads = false;
  bool is_limited = false;  ///< share_dram() found it at its limit
};

/// Divides a DRAM bandwidth (bytes/s): every flow keeps the same fraction f <= 1 of its own rate,
/// or its limit where that is lower; f is the largest that the bandwidth allows. So whoever asks
/// for more gets more, as on a memory controller that serves requests in their order. Flows that
/// yield stand last, and get what the others leave, but their least. Flows that lead are slowed
/// where they ask for more than half of the bandwidth and the others want the rest.
void share_dram(std::vector<Flow>& flows, double bandwidth);

}  // namespace dos::sched
