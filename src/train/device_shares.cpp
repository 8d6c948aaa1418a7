// SPDX-License-Identifier: Apache-2.0
#include "train/device_shares.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codelets/update/update_codelet.hpp"

namespace dos::train {

DeviceShares::DeviceShares(const rt::MachineView& machine, const shape::Layout& layout) {
  std::map<int, std::size_t> device_of_node;
  std::map<std::string, Index> of_kind;
  const auto add = [&](const rt::MachineView::Worker& worker, std::size_t device) {
    device_of_[worker.id] = device;
    ++devices_[device].workers;
  };
  for (const rt::MachineView::Worker& worker : machine.workers) {
    if (worker.kind != "cpu") continue;
    if (devices_.empty()) devices_.push_back({.name = "cpu"});
    add(worker, 0);
  }
  for (const rt::MachineView::Worker& worker : machine.workers) {
    if (worker.kind == "cpu") continue;
    const auto [place, is_new] = device_of_node.emplace(worker.node, devices_.size());
    if (is_new)
      devices_.push_back({.name = fmt::format("{}{}", worker.kind, of_kind[worker.kind]++)});
    add(worker, place->second);
  }
  for (const shape::Subgroup& subgroup : layout.subgroups)
    params_of_.emplace(subgroup.name, subgroup.count);
}

std::vector<StepMetrics::Device> DeviceShares::measure(std::span<const rt::TaskRecord> records,
                                                       double ms_step) const {
  std::vector<double> busy_ms(devices_.size());
  std::vector<double> updated(devices_.size());
  double all_updated = 0;
  for (const rt::TaskRecord& record : records) {
    const auto device = device_of_.find(record.worker);
    if (device == device_of_.end()) continue;
    busy_ms[device->second] += (record.end_us - record.start_us) / 1e3;
    if (record.codelet == nullptr || !codelets::is_update(*record.codelet)) continue;
    const auto params = params_of_.find(record.label);
    if (params == params_of_.end()) continue;
    updated[device->second] += static_cast<double>(params->second);
    all_updated += static_cast<double>(params->second);
  }
  std::vector<StepMetrics::Device> shares;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    shares.push_back({.name = devices_[i].name,
                      .busy = busy_ms[i] / (static_cast<double>(devices_[i].workers) * ms_step)});
    if (devices_.size() > 1 && all_updated > 0) shares.back().updated = updated[i] / all_updated;
  }
  return shares;
}

}  // namespace dos::train
