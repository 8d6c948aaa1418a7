// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/types.hpp"

namespace dos::rt {
class Handle;
}

namespace dos::tensor {

/// Told where the submission of a step stands, for parameters that are elsewhere until they are
/// needed, and gradients that go elsewhere. Depths are those of ParameterSpec::depth. Models tell
/// of forward and backward, the optimizer of sums and updates.
class ParameterListener {
 public:
  ParameterListener() = default;
  ParameterListener(const ParameterListener&) = delete;
  ParameterListener& operator=(const ParameterListener&) = delete;
  virtual ~ParameterListener() = default;

  /// Tasks that read the depth's parameters come next.
  virtual void before_forward(Index depth) = 0;
  virtual void before_backward(Index depth) = 0;
  /// No task of this micro-batch that writes the depth's gradients comes any more. Those of depth 0
  /// may be written from the beginning of backward on (a tied head). Depths below the first with
  /// something to train have no backward.
  virtual void after_backward(Index depth) = 0;
  /// The owned subgroups' sums of squares (FP64 [1], by subgroup, null where it is frozen) were
  /// submitted: submits what fills those of the others.
  virtual void share_sums(std::span<const rt::Handle* const> sums) = 0;
  /// What changes the parameters of a subgroup that is trained was submitted, or would have been by
  /// its owner.
  virtual void updated(Index subgroup) = 0;
};

}  // namespace dos::tensor
