// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "codelets/update/adamw_codelet.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::optim {

struct AdamWOptions {
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float eps = 1e-8F;
  float weight_decay = 0.1F;
  float clip = 1.0F;  ///< largest global gradient norm; 0: no clipping

  /// Throws Error naming the first value out of range.
  void validate() const;
};

/// AdamW over subgroups: the moments, and the tasks of one step.
///
/// With clipping every update waits for the global norm; without, each waits for its own subgroup's
/// gradient only. A gradient that is not finite stops all later updates (all of the subgroup's,
/// without clipping): parameters and moments stay what they were.
class AdamW {
 public:
  /// `parameters` must outlive the object.
  AdamW(rt::Session& session, const tensor::ParameterSet& parameters, const AdamWOptions& options);
  AdamW(const AdamW&) = delete;
  AdamW& operator=(const AdamW&) = delete;

  /// Submits step `step` (counted from 1): norms, clip factor, one update a subgroup in the order
  /// in which the next forward pass needs them. norm (FP64 [1]) receives the global gradient norm.
  void submit_step(rt::Submitter& submitter, Index step, double learning_rate,
                   const rt::Handle& norm) const;

  [[nodiscard]] const tensor::SubgroupHandles& first_moment() const { return first_moment_; }
  [[nodiscard]] const tensor::SubgroupHandles& second_moment() const { return second_moment_; }

  /// Bytes that the constructor will register.
  static Index state_bytes(const tensor::Layout& layout, const AdamWOptions& options);

 private:
  void submit_norms(rt::Submitter& submitter, const rt::Handle& norm) const;
  [[nodiscard]] const rt::Handle& factor_of(std::size_t subgroup) const;

  const tensor::ParameterSet& parameters_;
  AdamWOptions options_;
  tensor::SubgroupHandles first_moment_;
  tensor::SubgroupHandles second_moment_;
  std::vector<std::unique_ptr<rt::Handle>> sums_;     ///< FP64 [1] a subgroup
  std::unique_ptr<rt::Handle> global_factor_;         ///< FP32 [1]
  std::vector<std::unique_ptr<rt::Handle>> factors_;  ///< FP32 [1] a subgroup, without clipping
  std::vector<std::unique_ptr<rt::Handle>> norms_;    ///< FP64 [1] a subgroup, without clipping
  std::vector<std::size_t> order_;                    ///< subgroups by depth
  Index depths_ = 0;
};

}  // namespace dos::optim
