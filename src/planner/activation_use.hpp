// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "planner/passes.hpp"

namespace dos::planner {

/// A class of what blocks keep, and how some blocks have it again in backward.
struct ActivationUse {
  bool is_cheap = false;  ///< norms and activation functions; else what products make
  std::string where;      ///< "device", "recompute", "host", "disk"
  Index blocks = 0;
  units::Bytes bytes{0};      ///< of these blocks, of a micro-batch on one device
  units::Seconds hidden{0};   ///< of moving them, beside forward and backward
  units::Seconds exposed{0};  ///< that forward and backward take longer by it
};

/// The name of a class.
const char* class_name(bool is_cheap);

/// Every class by where it goes, without those of no blocks: what a device keeps, what it computes
/// again, what goes to host memory or a disk.
std::vector<ActivationUse> activation_uses(const PassModel& passes,
                                           const shape::ActivationPlan& plan);

/// The tensors of a class, as a block names them.
std::vector<std::string> tensors_of(const shape::Model& model, bool is_cheap);

/// Rows of a table, one a use; "" for none.
std::string activation_text(const std::vector<ActivationUse>& uses);

}  // namespace dos::planner
