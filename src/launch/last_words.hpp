// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dos::launch {

/// Words for standard error if the program is aborted: StarPU ends it so when CUDA refuses what it
/// asks for, and codelets do when a kernel cannot start. Only one may exist at a time.
class LastWords {
 public:
  explicit LastWords(std::string words);
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;
  /// An abort is silent again.
  ~LastWords();

  /// Whether an abort from now on says them: off until it is asked for. From any thread.
  void apply(bool on) noexcept;

 private:
  std::string words_;
};

}  // namespace dos::launch
