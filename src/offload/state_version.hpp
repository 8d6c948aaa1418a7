// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/event.hpp"
#include "codelets/update/update_sums.hpp"
#include "offload/state_file.hpp"

namespace dos::offload {

/// Buffers of a subgroup as tasks make them that were submitted up to some moment, in a file that
/// nobody changes any more. AwayStates makes it; others wait for it.
class StateVersion {
 public:
  // AwayStates, once:

  /// They are there; sums by piece (StateForm).
  void set(std::shared_ptr<StateFile> file, std::vector<codelets::ContentSum> sums) {
    file_ = std::move(file);
    sums_ = std::move(sums);
    known_.set();
  }
  /// They never will be.
  void set_fault(std::string fault) {
    fault_ = std::move(fault);
    known_.set();
  }

  // Others:

  /// Waits until it is known. "", or why there is nothing to be had: path and cause.
  [[nodiscard]] const std::string& wait() {
    known_.wait();
    return fault_;
  }
  /// Pre: wait() gave "".
  [[nodiscard]] const std::vector<codelets::ContentSum>& sums() const { return sums_; }
  /// Pre: wait() gave "".
  [[nodiscard]] StateFile& file() const { return *file_; }

 private:
  Event known_;
  std::string fault_;
  std::shared_ptr<StateFile> file_;
  std::vector<codelets::ContentSum> sums_;
};

}  // namespace dos::offload
