// SPDX-License-Identifier: Apache-2.0
#include "codelets/update/update_codelet.hpp"

#include <algorithm>
#include <array>
#include <memory>

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

rt::Codelet codelet_for(const UpdateKind& kind) {
  std::string symbol = fmt::format("dos.update.{}.{}.{}.v1", rule_of(kind).name,
                                   name_of(kind.gradient), name_of(kind.working));
  const std::array list_sizes{states_of(kind), Index{kind.working != DType::kF32}};
  rt::OpenclSource opencl{.text = update_opencl_source(kind), .kernel = kUpdateOpenclKernel};
  return kind.gradient == DType::kF32
             ? make_codelet<Update, InTask<void, float>>(symbol, list_sizes, std::move(opencl))
             : make_codelet<Update, InTask<void, BF16>>(symbol, list_sizes, std::move(opencl));
}

/// In the order of all_update_kinds().
std::vector<std::unique_ptr<const rt::Codelet>> make_codelets() {
  std::vector<std::unique_ptr<const rt::Codelet>> result;
  for (const UpdateKind& kind : all_update_kinds())
    result.push_back(std::unique_ptr<const rt::Codelet>(new rt::Codelet(codelet_for(kind))));
  return result;
}

}  // namespace

rt::Work Update::work(const Buffers<AtSubmission>& b, const Args& args) {
  return work_of(rule_of(args.kind).operations + 1, b.parameters.count());  // 1: the clip factor
}

/// The kernel's arguments (update_opencl.hpp).
void Update::opencl(rt::OpenclKernel& kernel, const Task<Update, InOpencl>& task) {
  const auto& [kind, step, number] = task.args;
  const Index count = task.parameters.elements;
  kernel.add_bytes(std::span(step.bytes).first(rule_of(kind).step_size));
  kernel.add_value(std::int64_t{count});
  for (const auto& buffers : {task.clip, task.gradient, task.parameters, task.states, task.working})
    for (Index i = 0; i < buffers.count; ++i) kernel.add_buffer(buffers.first + i);
  kernel.run(count);
}

std::vector<UpdateKind> all_update_kinds() {
  std::vector<UpdateKind> kinds;
  for (Index rule = 0; rule < std::ssize(all_rules()); ++rule)
    for (const DType gradient : kTypes)
      for (const DType working : kTypes) kinds.push_back({rule, gradient, working});
  return kinds;
}

const rt::Codelet& update_codelet(const UpdateKind& kind) {
  static const std::vector<UpdateKind> kinds = all_update_kinds();
  static const std::vector<std::unique_ptr<const rt::Codelet>> codelets = make_codelets();
  const auto found = std::find(kinds.begin(), kinds.end(), kind);
  expect(found != kinds.end(), "no update of rule {} has {} gradients and {} working parameters",
         kind.rule, name_of(kind.gradient), name_of(kind.working));
  return *codelets[static_cast<std::size_t>(found - kinds.begin())];
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
  submit_to<Update>(submitter, update_codelet(kind),
                    {.parameters = buffers.parameters,
                     .states = buffers.states,
                     .working = workings,
                     .gradient = buffers.gradient,
                     .clip = buffers.clip,
                     .sums = if_any(buffers.sums)},
                    {kind, step, buffers.step}, options);
}

}  // namespace dos::codelets
