// SPDX-License-Identifier: Apache-2.0
#include "rt/memory_ledger.hpp"

#include <numeric>

namespace dos::rt {

const char* name_of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kParameters:
      return "parameters";
    case MemoryCategory::kWorking:
      return "working parameters";
    case MemoryCategory::kGradients:
      return "gradients";
    case MemoryCategory::kStates:
      return "optimizer states";
    case MemoryCategory::kActivations:
      return "activations";
    case MemoryCategory::kWorkspace:
      return "workspace";
    case MemoryCategory::kData:
      return "data";
  }
  return "?";
}

Index MemoryBytes::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), Index{0});
}

void MemoryLedger::add(MemoryCategory category, Index bytes) {
  bytes_[static_cast<std::size_t>(category)] += bytes;
}

MemoryBytes MemoryLedger::now() const {
  MemoryBytes result;
  for (const MemoryCategory category : kMemoryCategories)
    result[category] = bytes_[static_cast<std::size_t>(category)];
  return result;
}

}  // namespace dos::rt
