// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

namespace dos::rt {

/// Held while StarPU starts: one process of a user and machine after the other. StarPU keeps its
/// measurements of the links in one folder, and replaces them when a process has other devices
/// than the one before: a process that reads them meanwhile would be aborted. Released by the
/// destructor, and by the system when the process ends.
///
/// Never an error: after `patience`, or where no lock can be had (a folder that is read-only), the
/// process starts without.
class StartLock {
 public:
  explicit StartLock(const std::filesystem::path& file,
                     std::chrono::milliseconds patience = std::chrono::minutes(2));
  StartLock(const StartLock&) = delete;
  StartLock& operator=(const StartLock&) = delete;
  ~StartLock();

  [[nodiscard]] bool is_held() const { return is_held_; }

  /// In the folder where StarPU keeps its measurements, which machines may share:
  /// $STARPU_HOME/.starpu, or $HOME/.starpu.
  static std::filesystem::path default_file();

 private:
  int descriptor_ = -1;
  bool is_held_ = false;
};

}  // namespace dos::rt
