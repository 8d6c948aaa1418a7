// SPDX-License-Identifier: Apache-2.0
#include "rt/memory_ledger.hpp"

#include <numeric>

namespace dos::rt {

Index MemoryBytes::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), Index{0});
}

void MemoryLedger::add(MemoryCategory category, Index bytes) {
  bytes_[static_cast<std::size_t>(category)] += bytes;
}

MemoryBytes MemoryLedger::now() const {
  MemoryBytes result;
  for (const MemoryCategory category : kBufferCategories)
    result[category] = bytes_[static_cast<std::size_t>(category)];
  return result;
}

}  // namespace dos::rt
