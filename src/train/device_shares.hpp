// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rt/machine_view.hpp"
#include "rt/profile.hpp"
#include "shape/layout.hpp"
#include "train/metrics.hpp"

namespace dos::train {

/// What each device of a rank had of a step: the CPU, which all its workers together are, and each
/// device with a memory of its own, "cuda0" and so on.
class DeviceShares {
 public:
  /// `layout`: of the parameters that are updated, under their names; it must outlive the object.
  DeviceShares(const rt::MachineView& machine, const shape::Layout& layout);

  /// From the records of a step's tasks; the CPU first.
  [[nodiscard]] std::vector<StepMetrics::Device> measure(std::span<const rt::TaskRecord> records,
                                                         double ms_step) const;

 private:
  struct Device {
    std::string name;
    Index workers = 0;
  };
  std::vector<Device> devices_;
  std::unordered_map<int, std::size_t> device_of_;  ///< by worker
  std::unordered_map<std::string_view, Index> params_of_;
};

}  // namespace dos::train
