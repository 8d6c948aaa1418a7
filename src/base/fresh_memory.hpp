// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace dos {

/// Memory that is to be written, and for which the system finds pages, and clears them, when they
/// are first touched. Threads that wait for something else have that done meanwhile. Thread-safe.
class FreshMemory {
 public:
  /// In the order in which it is given pages. It must live as long as the object.
  explicit FreshMemory(std::vector<std::span<std::byte>> memory);

  /// Has the system find pages for up to 2 MiB more; what the memory holds stays as it is. False
  /// where all have been asked for, or the system (Linux before 5.14) cannot.
  [[nodiscard]] bool find_pages();

 private:
  std::vector<std::pair<std::byte*, std::size_t>> pieces_;  ///< of whole pages
  std::atomic<std::size_t> next_ = 0;                       ///< of the pieces
};

}  // namespace dos
