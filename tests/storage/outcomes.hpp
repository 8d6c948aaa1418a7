// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>

#include "storage/engine.hpp"

namespace dos::test {

/// How transfers have ended. Must outlive them.
class Outcomes {
 public:
  void add(const std::string& fault) {
    const std::lock_guard lock(mutex_);
    ++all_;
    if (fault.empty()) return;
    ++faults_;
    last_fault_ = fault;
  }
  [[nodiscard]] storage::Done done() {
    return [this](const std::string& fault) { add(fault); };
  }

  [[nodiscard]] Index all() const { return all_; }
  [[nodiscard]] Index faults() const { return faults_; }
  [[nodiscard]] const std::string& last_fault() const { return last_fault_; }

 private:
  std::mutex mutex_;
  Index all_ = 0;
  Index faults_ = 0;
  std::string last_fault_;
};

}  // namespace dos::test
