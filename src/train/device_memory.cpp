// SPDX-License-Identifier: Apache-2.0
#include "train/device_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dos::train {
namespace {

constexpr double kMega = 1e6;

Index estimated(const planner::MemoryUse& use, const std::string& category) {
  for (const planner::MemoryItem& item : use.items)
    if (item.category == category) return static_cast<Index>(item.bytes.value());
  return 0;
}

}  // namespace

std::vector<DeviceMemoryRow> device_memory(const rt::Session& session, const rt::Device& device,
                                           const planner::MemoryUse& estimate) {
  using rt::MemoryCategory;
  const rt::MemoryBytes bytes = rt::allocated_on(session, device.node);
  const Index masters = bytes[MemoryCategory::kParameters];
  const Index working = bytes[MemoryCategory::kWorking];
  const bool is_narrow = std::ranges::any_of(session.handles(), [](const rt::Handle* handle) {
    return handle->category() == MemoryCategory::kWorking;
  });
  return {{"weights", estimated(estimate, "weights"), is_narrow ? working : masters},
          {"gradients", estimated(estimate, "gradients"), bytes[MemoryCategory::kGradients]},
          {"activations", estimated(estimate, "activations") + estimated(estimate, "logits"),
           bytes[MemoryCategory::kActivations] + bytes[MemoryCategory::kData]},
          {"states", 0, bytes[MemoryCategory::kStates] + (is_narrow ? masters : 0)},
          {"work spaces", estimated(estimate, "work spaces"),
           std::max<Index>(0, rt::used_on(device.node) - bytes.total())}};
}

std::string device_memory_text(const rt::Session& session,
                               const std::vector<planner::MemoryUse>& estimates) {
  std::string text;
  std::size_t next = 0;
  for (const rt::Device& device : rt::devices()) {
    const bool has_estimate = device.is_cuda && next < estimates.size();
    const planner::MemoryUse estimate = has_estimate ? estimates[next++] : planner::MemoryUse{};
    text += fmt::format("  memory of {}, MB:\n  {:<26}{:>12}{:>12}\n", device.name, "", "estimated",
                        "allocated");
    for (const DeviceMemoryRow& row : device_memory(session, device, estimate))
      text += fmt::format("  {:<26}{:>12.3f}{:>12.3f}\n", row.category,
                          static_cast<double>(row.estimated) / kMega,
                          static_cast<double>(row.allocated) / kMega);
  }
  return text;
}

}  // namespace dos::train
