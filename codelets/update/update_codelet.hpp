// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "codelets/operation.hpp"
#include "codelets/update/rule_info.hpp"
#include "codelets/update/update.hpp"
#include "codelets/update/update_sums.hpp"

namespace dos::codelets {

/// One subgroup's update: parameters and states in place, and the working parameters from them
/// (update.hpp). Buffers have the subgroup's size, but `clip`, one factor. Use submit_update().
struct Update : Operation {
  struct Args {
    UpdateKind kind;
    StepBytes step;
    Index number;  ///< of the step that sums are of
  };
  template <class As>
  struct Buffers {
    Updates<As, float> parameters;
    UpdatesEach<As, float> states;  ///< in the order of the rule
    WritesEach<As, BF16> working;   ///< none where the parameters are the working ones
    Reads<As, Gradient> gradient;
    Reads<As, float> clip;
    UpdatesEach<As, std::int32_t> sums;  ///< one (update_sums.hpp) where they are asked for
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args);
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    const auto& [kind, step, number] = task.args;
    const UpdateKernel kernel = update_cpu<kIsa>(kind);
    if (task.sums.empty())
      kernel(step.bytes, arrays_of(task));
    else
      update_with_sums({kernel, &all_finite_cpu<kIsa>}, kind, step, arrays_of(task), number,
                       UpdateSums(task.sums.front()));
  }
  static void opencl(rt::OpenclKernel& kernel, const Task<Update, InOpencl>& task);
  static auto cuda(const CudaContext& context, const auto& task) {
    return update_cuda(context, task.args.kind, task.args.step, arrays_of(task));
  }

 private:
  static UpdateArrays arrays_of(const auto& task) {
    UpdateArrays arrays{.count = std::ssize(task.parameters),
                        .clip = task.clip.data(),
                        .g = task.gradient.data(),
                        .p = task.parameters.data(),
                        .states = {},
                        .w = task.working.empty() ? nullptr : task.working.front()};
    std::ranges::copy(task.states, arrays.states);
    return arrays;
  }
};

/// Every rule with every type of gradient and working parameters.
std::vector<UpdateKind> all_update_kinds();

/// "dos.update.<rule>.<gradient>.<working>.v<N>"
const rt::Codelet& update_codelet(const UpdateKind& kind);

/// What submit_update() is given; types say which codelet it takes.
struct UpdateBuffers {
  const rt::Handle& parameters;
  std::span<const rt::Handle* const> states;  ///< in the order of the rule
  const rt::Handle* working;                  ///< null: the parameters are the working ones
  const rt::Handle& gradient;
  const rt::Handle& clip;
  const rt::Handle* sums = nullptr;  ///< prepared UpdateSums; null: none
  Index step = 0;                    ///< that the sums are of
};

/// Submits an Update. Does nothing for an empty subgroup.
void submit_update(rt::Submitter& submitter, Index rule, const StepBytes& step,
                   const UpdateBuffers& buffers, const rt::TaskOptions& options);

}  // namespace dos::codelets
