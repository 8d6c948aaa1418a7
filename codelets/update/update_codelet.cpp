// SPDX-License-Identifier: Apache-2.0
#include "codelets/update/update_codelet.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "codelets/update/update_opencl.hpp"

namespace dos::codelets {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kBF16};

const RuleInfo& rule_of(const UpdateKind& kind) {
  return all_rules()[static_cast<std::size_t>(kind.rule)];
}

Index states_of(const UpdateKind& kind) {
  return std::ssize(rule_of(kind).states);
}

std::string symbol_of(const UpdateKind& kind, UpdateForm form) {
  return fmt::format("dos.{}.{}.{}.{}{}.v1", form == UpdateForm::kRedo ? "redo" : "update",
                     rule_of(kind).name, name_of(kind.gradient), name_of(kind.working),
                     form == UpdateForm::kApart ? ".apart" : "");
}

template <class Op>
rt::Codelet codelet_for(const UpdateKind& kind, UpdateForm form,
                        std::span<const Index> list_sizes) {
  const std::string symbol = symbol_of(kind, form);
  rt::OpenclSource opencl{.text = update_opencl_source(kind, form == UpdateForm::kInPlace),
                          .kernel = kUpdateOpenclKernel};
  return kind.gradient == DType::kF32
             ? make_codelet<Op, InTask<void, float>>(symbol, list_sizes, std::move(opencl))
             : make_codelet<Op, InTask<void, BF16>>(symbol, list_sizes, std::move(opencl));
}

rt::Codelet codelet_for(const UpdateKind& kind, UpdateForm form) {
  const Index states = states_of(kind);
  const Index working = kind.working != DType::kF32 ? 1 : 0;
  if (form == UpdateForm::kInPlace)
    return codelet_for<Update>(kind, form, std::array{states, working});
  return codelet_for<UpdateApart>(kind, form, std::array{1 + states, 1 + states, working});
}

/// By form, in the order of all_update_kinds().
std::vector<std::unique_ptr<const rt::Codelet>> make_codelets() {
  std::vector<std::unique_ptr<const rt::Codelet>> result;
  for (const UpdateForm form : kUpdateForms)
    for (const UpdateKind& kind : all_update_kinds())
      result.push_back(
          std::unique_ptr<const rt::Codelet>(new rt::Codelet(codelet_for(kind, form))));
  return result;
}

rt::Work work_of_update(const UpdateKind& kind, Index parameters) {
  return work_of(rule_of(kind).operations + 1, parameters);  // 1: the clip factor
}

/// Runs the kernel (update_opencl.hpp), whose first arguments are the same for all.
template <class Op>
void run_opencl(rt::OpenclKernel& kernel, const Task<Op, InOpencl>& task, Index count,
                std::initializer_list<buffers::Places> places) {
  const auto& [kind, step, number] = task.args;
  kernel.add_bytes(std::span(step.bytes).first(rule_of(kind).step_size));
  kernel.add_value(std::int64_t{count});
  for (const buffers::Places& each : places)
    for (Index i = 0; i < each.count; ++i) kernel.add_buffer(each.first + i);
  kernel.run(count);
}

}  // namespace

rt::Work Update::work(const Buffers<AtSubmission>& b, const Args& args) {
  return work_of_update(args.kind, b.parameters.count());
}

rt::Work UpdateApart::work(const Buffers<AtSubmission>& b, const Args& args) {
  return work_of_update(args.kind, b.gradient.count());
}

void Update::opencl(rt::OpenclKernel& kernel, const Task<Update, InOpencl>& task) {
  run_opencl(kernel, task, task.parameters.elements,
             {task.clip, task.gradient, task.parameters, task.states, task.working});
}

void UpdateApart::opencl(rt::OpenclKernel& kernel, const Task<UpdateApart, InOpencl>& task) {
  run_opencl(kernel, task, task.gradient.elements,
             {task.clip, task.gradient, task.values, task.working, task.old_values});
}

std::vector<UpdateKind> all_update_kinds() {
  std::vector<UpdateKind> kinds;
  for (Index rule = 0; rule < std::ssize(all_rules()); ++rule)
    for (const DType gradient : kTypes)
      for (const DType working : kTypes) kinds.push_back({rule, gradient, working});
  return kinds;
}

const rt::Codelet& update_codelet(const UpdateKind& kind, UpdateForm form) {
  static const std::vector<UpdateKind> kinds = all_update_kinds();
  static const std::vector<std::unique_ptr<const rt::Codelet>> codelets = make_codelets();
  const auto found = std::find(kinds.begin(), kinds.end(), kind);
  expect(found != kinds.end(), "no update of rule {} has {} gradients and {} working parameters",
         kind.rule, name_of(kind.gradient), name_of(kind.working));
  const Index number = static_cast<Index>(form) * std::ssize(kinds) + (found - kinds.begin());
  return *codelets[static_cast<std::size_t>(number)];
}

bool is_update(const rt::Codelet& codelet) {
  return std::string_view(codelet.symbol()).starts_with("dos.update.");
}

bool is_redo(const rt::Codelet& codelet) {
  return std::string_view(codelet.symbol()).starts_with("dos.redo.");
}

void submit_update(rt::Submitter& submitter, Index rule, const StepBytes& step,
                   const UpdateBuffers& buffers, const rt::TaskOptions& options) {
  const auto if_any = [](const rt::Handle* const& handle) {
    return std::span<const rt::Handle* const>(&handle, handle == nullptr ? 0 : 1);
  };
  const std::span<const rt::Handle* const> workings = if_any(buffers.working);
  const UpdateKind kind{.rule = rule,
                        .gradient = buffers.gradient.type(),
                        .working = workings.empty() ? DType::kF32 : buffers.working->type()};
  require(std::ssize(buffers.states) == states_of(kind), "the states of the rule");
  require(workings.empty() || kind.working != DType::kF32,
          "FP32 working parameters are the parameters themselves");
  // No device allocates a buffer of nothing.
  if (buffers.parameters.count() == 0) return;
  const bool in_place = buffers.old_parameters == nullptr;
  require(!in_place || !buffers.is_redone, "an update in place is not made again");
  if (in_place) {
    submit_to<Update>(submitter, update_codelet(kind),
                      {.parameters = buffers.parameters,
                       .states = buffers.states,
                       .working = workings,
                       .gradient = buffers.gradient,
                       .clip = buffers.clip,
                       .sums = if_any(buffers.sums)},
                      {kind, step, buffers.step}, options);
    return;
  }
  require(std::ssize(buffers.old_states) == states_of(kind), "the old states of the rule");
  const auto values_of = [](const rt::Handle* parameters, std::span<const rt::Handle* const> more) {
    std::vector<const rt::Handle*> values{parameters};
    values.insert(values.end(), more.begin(), more.end());
    return values;
  };
  const auto old_values = values_of(buffers.old_parameters, buffers.old_states);
  const auto values = values_of(&buffers.parameters, buffers.states);
  submit_to<UpdateApart>(
      submitter, update_codelet(kind, buffers.is_redone ? UpdateForm::kRedo : UpdateForm::kApart),
      {.old_values = old_values,
       .values = values,
       .working = workings,
       .gradient = buffers.gradient,
       .clip = buffers.clip,
       .sums = if_any(buffers.sums)},
      {kind, step, buffers.step}, options);
}

}  // namespace dos::codelets
