// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace dos::launch {

/// Looks for what another rank has written until `sees_it()`, at most for five seconds: network
/// file systems show it to other nodes after some time. Whether it was seen.
template <class Look>
bool look_for(const Look& sees_it) {
  constexpr int kLooks = 50;
  constexpr std::chrono::milliseconds kPause{100};
  for (int look = 1; look < kLooks; ++look) {
    if (sees_it()) return true;
    std::this_thread::sleep_for(kPause);
  }
  return sees_it();
}

}  // namespace dos::launch
