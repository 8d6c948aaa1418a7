// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>

#include "base/types.hpp"

namespace dos::rt {

/// What a buffer is for; memory is estimated, counted and reported by these.
enum class MemoryCategory {
  kParameters,
  kWorking,
  kGradients,
  kStates,
  kActivations,
  kWorkspace,
  kData
};
inline constexpr std::array kMemoryCategories{
    MemoryCategory::kParameters, MemoryCategory::kWorking,     MemoryCategory::kGradients,
    MemoryCategory::kStates,     MemoryCategory::kActivations, MemoryCategory::kWorkspace,
    MemoryCategory::kData};

const char* name_of(MemoryCategory category);

/// Bytes by category.
struct MemoryBytes {
  std::array<Index, kMemoryCategories.size()> bytes{};

  Index& operator[](MemoryCategory category) { return bytes[static_cast<std::size_t>(category)]; }
  Index operator[](MemoryCategory category) const {
    return bytes[static_cast<std::size_t>(category)];
  }
  [[nodiscard]] Index total() const;
};

/// Counts the bytes of every registered buffer. Thread-safe.
class MemoryLedger {
 public:
  void add(MemoryCategory category, Index bytes);
  void remove(MemoryCategory category, Index bytes) { add(category, -bytes); }
  [[nodiscard]] MemoryBytes now() const;

 private:
  std::array<std::atomic<Index>, kMemoryCategories.size()> bytes_{};
};

}  // namespace dos::rt
