// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>

namespace dos::storage {

/// A transfer that computing waits for, while it is open on a device. All engines of a process ask
/// for others, as one device serves them all: an engine of its own for each purpose knows nothing
/// of the rest. Thread-safe.
class AwaitedTransfer {
 public:
  explicit AwaitedTransfer(std::uint64_t device);
  AwaitedTransfer(const AwaitedTransfer&) = delete;
  AwaitedTransfer& operator=(const AwaitedTransfer&) = delete;
  ~AwaitedTransfer();

  /// Whether there is one on the device.
  [[nodiscard]] static bool is_any(std::uint64_t device);

  /// Who is woken, as long as it lives, whenever a device has none any more; from any thread, and
  /// `wake` must not wait.
  class Sleeper {
   public:
    explicit Sleeper(std::function<void()> wake);
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;
    ~Sleeper();

   private:
    std::list<std::function<void()>>::iterator place_;
  };

 private:
  std::uint64_t device_;
};

}  // namespace dos::storage
