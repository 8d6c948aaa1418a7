// SPDX-License-Identifier: Apache-2.0
#include "base/prefault.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/fresh_memory.hpp"

namespace dos {

Prefault::Prefault(std::vector<std::span<std::byte>> memory, std::function<void(std::size_t)> found)
    : memory_(std::move(memory)), found_(std::move(found)) {
  const std::size_t most = std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
  try {
    for (std::size_t i = 0; i < std::min(most, memory_.size()); ++i)
      threads_.emplace_back([this] { work(); });
  } catch (const std::exception&) {
    // Fewer will do; without any, who fills the memory finds its pages.
    for (std::size_t i = 0; threads_.empty() && i < memory_.size(); ++i) found_(i);
  }
}

Prefault::~Prefault() {
  next_ = memory_.size();
}

void Prefault::work() {
  for (std::size_t i = next_.fetch_add(1); i < memory_.size(); i = next_.fetch_add(1)) {
    try {
      FreshMemory fresh({memory_[i]});
      while (fresh.find_pages()) {
      }
    } catch (const std::bad_alloc&) {
      // Found by who fills it.
    }
    found_(i);
  }
}

}  // namespace dos
