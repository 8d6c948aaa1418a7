// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "sched_starpu/tuning.hpp"

namespace dos::sched_starpu {

/// A mutex for which a thread tries again for some microseconds before it sleeps. What it guards
/// takes less, and the thread that drives a GPU, whose kernels take some 20 us, is woken later than
/// that, above all on a virtual machine.
class SpinningMutex {
 public:
  void lock() {
    for (int pauses = 1; pauses <= Tuning::most_pauses; pauses *= 2) {
      if (mutex_.try_lock()) return;
      for (int i = 0; i < pauses; ++i) pause();
    }
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
  }

  std::mutex mutex_;
};

}  // namespace dos::sched_starpu
