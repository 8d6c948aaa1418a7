// SPDX-License-Identifier: Apache-2.0
// What a Scheduler says of itself.
#include <array>

#include "sched_starpu/scheduler.hpp"

namespace dos::sched_starpu {

UpdatesReport Scheduler::report() {
  const std::lock_guard lock(mutex_);
  if (!board_) return {};
  UpdatesReport report = board_->report();
  for (std::size_t g = 0; g < nodes_.size(); ++g) describe_device(nodes_[g], report.devices[g]);
  return report;
}

std::optional<StepReport> Scheduler::step_report(Index step) {
  const std::lock_guard lock(mutex_);
  return board_ ? board_->ledger().step(step) : std::nullopt;
}

std::string Scheduler::obstacle() {
  const std::lock_guard lock(mutex_);
  return board_ ? board_->plans().obstacle() : "";
}

void Scheduler::describe_device(Node& node, DeviceReport& device) {
  device.workers = std::ssize(node.workers);
  for (const int worker : node.workers)
    device.times += clocks_[static_cast<std::size_t>(worker)].times();
  if (node.device.is_cpu()) {
    device.name = "CPU";
    return;
  }
  constexpr std::size_t kLongestName = 64;
  std::array<char, kLongestName> name{};
  starpu_memory_node_get_name(node.id, name.data(), name.size());
  device.name = name.data();
  if (starpu_profiling_status_get() != STARPU_PROFILING_ENABLE) return;
  // Reading a counter of StarPU sets it to 0.
  const auto bytes = [](unsigned from, unsigned to) {
    starpu_profiling_bus_info info{};
    starpu_bus_get_profiling_info(starpu_bus_get_id(static_cast<int>(from), static_cast<int>(to)),
                                  &info);
    return units::Bytes(static_cast<double>(info.transferred_bytes));
  };
  node.moved.in += bytes(nodes_.front().id, node.id);
  node.moved.out += bytes(node.id, nodes_.front().id);
  device.moved = node.moved;
}

}  // namespace dos::sched_starpu
