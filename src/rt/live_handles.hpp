// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <unordered_set>

#include "base/types.hpp"

namespace dos::rt {

class Handle;

/// The buffers that live, for who has no session at hand. Thread-safe.
class LiveHandles {
 public:
  static LiveHandles& instance();

  void add(const Handle& handle);
  void remove(const Handle& handle);
  /// As released_on() of rt/device.hpp.
  [[nodiscard]] Index released_on(int node);

 private:
  std::mutex mutex_;
  std::unordered_set<const Handle*> handles_;
};

}  // namespace dos::rt
