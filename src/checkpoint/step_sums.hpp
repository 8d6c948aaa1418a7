// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "checkpoint/contents.hpp"

namespace dos::checkpoint {

/// Buffers in which updates leave the sums of the pieces that a checkpoint of their step will have
/// (codelets/update/update_sums.hpp), so that nobody reads the bytes once more for them.
class StepSums {
 public:
  /// Of what this rank owns and trains. The session must outlive the object.
  StepSums(rt::Session& session, const tensor::ParameterSet& parameters,
           const optim::Optimizer& optimizer);

  /// By subgroup, null where there is none: for Optimizer::set_sums().
  [[nodiscard]] std::span<const std::unique_ptr<rt::Handle>> handles() const { return handles_; }

 private:
  std::vector<std::unique_ptr<rt::Handle>> handles_;
};

}  // namespace dos::checkpoint
