// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace dos::codelets {

/// Memory of one thread, aligned to pages; it only grows.
class ThreadWorkspace {
 public:
  void* at_least(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset(static_cast<std::byte*>(::operator new(bytes, kPage)));
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kPage{4096};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kPage); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

}  // namespace dos::codelets
