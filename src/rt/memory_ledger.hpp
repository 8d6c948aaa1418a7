// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>

#include "base/memory_category.hpp"
#include "base/types.hpp"

namespace dos::rt {

/// Bytes of buffers by category.
struct MemoryBytes {
  std::array<Index, kBufferCategories.size()> bytes{};

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
  std::array<std::atomic<Index>, kBufferCategories.size()> bytes_{};
};

}  // namespace dos::rt
