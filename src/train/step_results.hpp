// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "rt/handle.hpp"
#include "rt/session.hpp"

namespace dos::train {

/// Loss and gradient norm of the steps in flight: one slot more than may be in flight, so that a
/// slot is read before it is written again.
class StepResults {
 public:
  StepResults(rt::Session& session, Index run_ahead);

  [[nodiscard]] const rt::Handle& loss(Index step) const { return *slot(step).loss; }
  [[nodiscard]] const rt::Handle& norm(Index step) const { return *slot(step).norm; }
  [[nodiscard]] const rt::Handle& validation_loss() const { return *validation_loss_; }

  /// Bytes that the constructor registers.
  static Index bytes(Index run_ahead);

 private:
  struct Slot {
    std::unique_ptr<rt::Handle> loss;  ///< FP64 [1]
    std::unique_ptr<rt::Handle> norm;  ///< FP64 [1]
  };
  [[nodiscard]] const Slot& slot(Index step) const;

  std::vector<Slot> slots_;
  std::unique_ptr<rt::Handle> validation_loss_;
};

/// The FP64 scalar in a handle, once the tasks that write it are done.
double read_scalar(const rt::Handle& handle);

}  // namespace dos::train
