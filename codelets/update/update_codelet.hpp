// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
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
    run_on_cpu<kIsa>(task, arrays_of(task));
  }
  static void opencl(rt::OpenclKernel& kernel, const Task<Update, InOpencl>& task);
  static auto cuda(const CudaContext& context, const auto& task) {
    return update_cuda(context, task.args.kind, task.args.step, arrays_of(task));
  }

  /// An update of these arrays, with the sums that the task asks for.
  template <simd::Isa kIsa>
  static void run_on_cpu(const auto& task, const UpdateArrays& arrays) {
    const auto& [kind, step, number] = task.args;
    const UpdateKernel kernel = update_cpu<kIsa>(kind);
    if (task.sums.empty())
      kernel(step.bytes, arrays);
    else
      update_with_sums({kernel, &all_finite_cpu<kIsa>}, kind, step, arrays, number,
                       UpdateSums(task.sums.front()));
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

/// The same, of parameters and states that stay what they are: it makes others of them. Lists of
/// parameters and states have the parameters first.
struct UpdateApart : Operation {
  using Args = Update::Args;
  template <class As>
  struct Buffers {
    ReadsEach<As, float> old_values;
    WritesEach<As, float> values;
    WritesEach<As, BF16> working;
    Reads<As, Gradient> gradient;
    Reads<As, float> clip;
    UpdatesEach<As, std::int32_t> sums;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args);
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    Update::run_on_cpu<kIsa>(task, arrays_of(task));
  }
  static void opencl(rt::OpenclKernel& kernel, const Task<UpdateApart, InOpencl>& task);
  static auto cuda(const CudaContext& context, const auto& task) {
    return update_cuda(context, task.args.kind, task.args.step, arrays_of(task));
  }

 private:
  static UpdateArrays arrays_of(const auto& task) {
    UpdateArrays arrays{.count = std::ssize(task.gradient),
                        .clip = task.clip.data(),
                        .g = task.gradient.data(),
                        .p = task.values.front(),
                        .states = {},
                        .w = task.working.empty() ? nullptr : task.working.front(),
                        .old_p = task.old_values.front()};
    std::copy(task.values.begin() + 1, task.values.end(), arrays.states);
    std::copy(task.old_values.begin() + 1, task.old_values.end(), arrays.old_states);
    return arrays;
  }
};

/// Whether an update changes values in place or makes others, and then, whether it is made once
/// more, of the same values, as the one before took a clip factor that was not the step's.
enum class UpdateForm { kInPlace, kApart, kRedo };
inline constexpr std::array kUpdateForms{UpdateForm::kInPlace, UpdateForm::kApart,
                                         UpdateForm::kRedo};

/// Every rule with every type of gradient and working parameters.
std::vector<UpdateKind> all_update_kinds();

/// "dos.update.<rule>.<gradient>.<working>.v<N>", ".apart.v<N>", and "dos.redo." for redone ones.
const rt::Codelet& update_codelet(const UpdateKind& kind, UpdateForm form = UpdateForm::kInPlace);

/// Whether it is one for updates, but not for those that are made once more.
bool is_update(const rt::Codelet& codelet);
/// Whether it is one for updates that are made once more.
bool is_redo(const rt::Codelet& codelet);

/// What submit_update() is given; types say which codelet it takes.
struct UpdateBuffers {
  const rt::Handle& parameters;
  std::span<const rt::Handle* const> states;  ///< in the order of the rule
  const rt::Handle* working;                  ///< null: the parameters are the working ones
  const rt::Handle& gradient;
  const rt::Handle& clip;
  const rt::Handle* sums = nullptr;            ///< prepared UpdateSums; null: none
  Index step = 0;                              ///< that the sums are of
  const rt::Handle* old_parameters = nullptr;  ///< null: the update is in place
  std::span<const rt::Handle* const> old_states = {};
  bool is_redone = false;  ///< Pre: not in place
};

/// Submits an Update or UpdateApart. Does nothing for an empty subgroup.
void submit_update(rt::Submitter& submitter, Index rule, const StepBytes& step,
                   const UpdateBuffers& buffers, const rt::TaskOptions& options);

}  // namespace dos::codelets
