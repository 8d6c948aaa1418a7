// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <thread>
#include <vector>

namespace dos {

/// Threads, one a core and eight at most, that have the system find and clear pages for memory that
/// is to be filled: beside a disk's rate that is no small time, and one thread that touches all of
/// it cannot keep up where a virtual machine has to ask its host for each page.
class Prefault {
 public:
  /// Begins with the first of `memory`, which must live as long as the object, and goes on in this
  /// order. What it holds stays as it is. Calls found(i) from its threads, once a piece, when the
  /// whole pages of piece i are there, or the system (Linux before 5.14) cannot find any; from here
  /// where it gives no threads.
  Prefault(std::vector<std::span<std::byte>> memory, std::function<void(std::size_t)> found);
  Prefault(const Prefault&) = delete;
  Prefault& operator=(const Prefault&) = delete;
  /// Leaves out the pieces that no thread has begun with.
  ~Prefault();

 private:
  void work();

  std::vector<std::span<std::byte>> memory_;
  std::function<void(std::size_t)> found_;
  std::atomic<std::size_t> next_ = 0;  ///< of the pieces
  std::vector<std::jthread> threads_;  ///< last: end before what they use
};

}  // namespace dos
