// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/types.hpp"

namespace dos::storage {

enum class Kind : std::uint8_t { kRead, kWrite, kSync };

/// One system call's worth: what is moved between a file and memory, or fdatasync().
struct Operation {
  Kind kind = Kind::kRead;
  int descriptor = -1;
  Index offset = 0;
  std::byte* memory = nullptr;
  Index bytes = 0;
};

struct Completion {
  std::uint64_t tag = 0;
  /// Bytes moved, fewer than asked for perhaps; or -errno.
  Index result = 0;
};

/// Carries operations out, many at a time. Apart from wake(), one thread uses it.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  /// Pre: nothing is under way.
  virtual ~Backend() = default;

  [[nodiscard]] virtual const char* name() const = 0;
  /// Operations that may be under way at once.
  [[nodiscard]] virtual Index capacity() const = 0;
  /// Begins an operation, or throws; its memory stays the caller's until its completion is given.
  virtual void start(const Operation& operation, std::uint64_t tag) = 0;
  /// What was completed; waits for something, or for wake(). Nothing, for a moment, where the
  /// system lacks memory.
  virtual std::vector<Completion> wait() = 0;
  /// Lets wait(), of now or the next one, return. From any thread.
  virtual void wake() = 0;
};

/// Threads that read and write, as many as are under way, kMostThreads at most, or as the system
/// lets a process have. Throws Error where it has none.
std::unique_ptr<Backend> make_thread_backend();

/// Linux's io_uring, interrupt-driven: no polling thread burns a core. Null where this build, the
/// kernel or a container's rules do not allow it; then `cause` gets the error.
std::unique_ptr<Backend> make_uring_backend(int* cause = nullptr);

/// The best that there is here; says once (say_fallback()) when it is not io_uring, and why.
std::unique_ptr<Backend> make_backend();

}  // namespace dos::storage
