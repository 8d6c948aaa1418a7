// SPDX-License-Identifier: Apache-2.0
#include "fit/device_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dos::fit {
namespace {

constexpr double kMega = 1e6;

Index estimated(const planner::MemoryUse& use, MemoryCategory category) {
  return static_cast<Index>(use.of(category).value());
}

}  // namespace

std::vector<DeviceMemoryRow> device_memory(const rt::Session& session, const rt::Device& device,
                                           const planner::MemoryUse& estimate) {
  const rt::MemoryBytes bytes = rt::allocated_on(session, device.node);
  const Index masters = bytes[MemoryCategory::kParameters];
  const Index working = bytes[MemoryCategory::kWorking];
  const bool is_narrow = std::ranges::any_of(session.handles(), [](const rt::Handle* handle) {
    return handle->category() == MemoryCategory::kWorking;
  });
  const auto row = [&](MemoryCategory category, Index allocated) {
    return DeviceMemoryRow{category, estimated(estimate, category), allocated};
  };
  DeviceMemoryRow activations =
      row(MemoryCategory::kActivations,
          bytes[MemoryCategory::kActivations] + bytes[MemoryCategory::kData]);
  activations.estimated += estimated(estimate, MemoryCategory::kLogits);
  return {row(MemoryCategory::kWeights, is_narrow ? working : masters),
          row(MemoryCategory::kGradients, bytes[MemoryCategory::kGradients]), activations,
          row(MemoryCategory::kStatesWithParameters,
              bytes[MemoryCategory::kStates] + (is_narrow ? masters : 0)),
          row(MemoryCategory::kWorkSpaces,
              std::max<Index>(0, rt::used_on(device.node) - bytes.total()))};
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
      text += fmt::format("  {:<26}{:>12.3f}{:>12.3f}\n", name_of(row.category),
                          static_cast<double>(row.estimated) / kMega,
                          static_cast<double>(row.allocated) / kMega);
  }
  return text;
}

}  // namespace dos::fit
