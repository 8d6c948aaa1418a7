// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace dos::platform {

/// Looks for threads of this process that could run and are given no processor: where a system has
/// none for a program, for a minute or more, what the program has not done says nothing about it.
class StarvedThreads {
 public:
  /// `tasks`: a folder with `stat` and `schedstat` (man 5 proc) of each thread.
  explicit StarvedThreads(std::filesystem::path tasks = "/proc/self/task")
      : tasks_(std::move(tasks)) {}

  /// The next look; whether a thread was able to run at this one and at the one before, and has not
  /// run at all between. False where the system does not tell.
  [[nodiscard]] bool look();

 private:
  std::filesystem::path tasks_;
  std::map<std::string, std::string> able_;  ///< at the last look: what each had run by then
};

}  // namespace dos::platform
