// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <type_traits>

namespace dos::test {

/// The threads of a CUDA block on the host: fibers that run one after another, each until it waits
/// for others. One block at a time; the functions below are for its threads.
class HostBlock {
 public:
  static constexpr int kWarp = 32;

  /// Runs `program` once for each of `threads` threads (whole warps) until all have ended. Aborts
  /// when they wait for ever.
  static void run(int threads, const std::function<void()>& program);

  static int thread();
  static int lane() { return thread() % kWarp; }
  static void barrier();
  static void sync_warp();

  /// What each lane of the warp shows in the same call; all take part.
  template <class V>
  class Shown {
   public:
    explicit Shown(const std::byte* values) : values_(values) {}
    V operator[](int lane) const {
      V value;
      std::memcpy(&value, values_ + lane * kMost, sizeof value);
      return value;
    }

   private:
    const std::byte* values_;
  };
  template <class V>
  static Shown<V> show(const V& value) {
    static_assert(std::is_trivially_copyable_v<V> && sizeof(V) <= kMost);
    return Shown<V>(show_bytes(&value, sizeof value));
  }

 private:
  static constexpr int kMost = 32;  ///< bytes that a lane shows at a time
  static const std::byte* show_bytes(const void* value, std::size_t bytes);
};

}  // namespace dos::test
