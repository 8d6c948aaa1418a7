// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "rt/submitter.hpp"
#include "tensor/parameter_listener.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::optim {

/// The norms of a step's gradients, and the factors that clip them. With clipping every subgroup
/// has the factor of the global norm; without, one that waits for its own gradient only, 1 where
/// that is finite. What is frozen has none of them. A factor is NaN after a gradient that is not
/// finite, in all later steps, too.
class GradientNorms {
 public:
  /// `parameters` must outlive the object. `clip`: largest global norm; 0: no clipping.
  GradientNorms(rt::Session& session, const tensor::ParameterSet& parameters, float clip);

  /// Submits the norms of a step; `norm` (FP64 [1]) receives the global one. `listener` may be
  /// null. `tells`: tasks of the step ask is_clipped(). `is_prompt`: of a subgroup, whether what is
  /// its own comes before all else.
  void submit(rt::Submitter& submitter, const rt::Handle& norm, tensor::ParameterListener* listener,
              bool tells = false, const std::function<bool(Index)>& is_prompt = {}) const;

  /// Drops what GPUs hold of the sums: the tasks submitted so far are the last that read them.
  void drop_sums() const;

  /// Whether each subgroup has a factor that waits for its own gradient only.
  [[nodiscard]] bool are_own() const { return clip_ <= 0; }
  /// FP32 [1]: what the subgroup's gradient is multiplied with.
  [[nodiscard]] const rt::Handle& factor_of(Index subgroup) const;
  /// FP32 [1]: 1, for what goes ahead of the factor.
  [[nodiscard]] const rt::Handle& one() const { return *one_; }
  /// Holds unless the factor is 1, of tasks that read it, in steps that are told so. Pre: with
  /// clipping.
  [[nodiscard]] rt::Condition is_clipped() const;

  /// FP64 [1]: the sum of squares of the subgroup's gradient.
  [[nodiscard]] const rt::Handle& sum_of(Index subgroup) const {
    return *sums_[static_cast<std::size_t>(subgroup)];
  }

  /// Bytes that the constructor will register for so many subgroups that are trained.
  static Index bytes(Index subgroups, float clip);

 private:
  const tensor::ParameterSet& parameters_;
  float clip_;
  std::unique_ptr<rt::Handle> global_factor_;  ///< FP32 [1]
  std::unique_ptr<rt::Handle> told_factor_;    ///< FP32 [1], in host memory; with clipping
  std::unique_ptr<rt::Handle> one_;            ///< FP32 [1]; with clipping
  // By subgroup, null where it is frozen.
  std::vector<std::unique_ptr<rt::Handle>> sums_;     ///< FP64 [1] a subgroup
  std::vector<std::unique_ptr<rt::Handle>> factors_;  ///< FP32 [1] a subgroup, without clipping
  std::vector<std::unique_ptr<rt::Handle>> norms_;    ///< FP64 [1] a subgroup, without clipping
};

}  // namespace dos::optim
