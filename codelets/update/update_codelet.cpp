// SPDX-License-Identifier: Apache-2.0
#include "codelets/update/update_codelet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "codelets/update/update_cuda.hpp"
#include "codelets/update/update_opencl.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

constexpr DType kTypes[] = {DType::kF32, DType::kBF16};

struct Args {
  UpdateKind kind;
  Index count;
  StepBytes step;
};

const RuleInfo& rule_of(const UpdateKind& kind) {
  return all_rules()[static_cast<std::size_t>(kind.rule)];
}

Index states_of(const UpdateKind& kind) {
  return std::ssize(rule_of(kind).states);
}

/// Buffers: p, the states, w unless p is the working parameters, g, clip.
std::vector<Mode> modes_of(const UpdateKind& kind) {
  std::vector<Mode> modes(1 + rule_of(kind).states.size(), Mode::kReadWrite);
  if (kind.working != DType::kF32) modes.push_back(Mode::kWrite);
  modes.insert(modes.end(), {Mode::kRead, Mode::kRead});
  return modes;
}

UpdateArrays arrays_of(const rt::TaskView& task) {
  const auto& args = task.args<Args>();
  UpdateArrays arrays{};
  arrays.count = args.count;
  Index buffer = 0;
  arrays.p = task.pointer<float>(buffer++);
  for (Index i = 0; i < states_of(args.kind); ++i) arrays.states[i] = task.pointer<float>(buffer++);
  if (args.kind.working != DType::kF32) arrays.w = task.pointer<BF16>(buffer++);
  arrays.g = task.pointer<const void>(buffer++);
  arrays.clip = task.pointer<const float>(buffer);
  return arrays;
}

void update_task(const rt::TaskView& task) {
  const auto& args = task.args<Args>();
  simd::dispatch(
      [&]<simd::Isa kIsa>() { update_cpu<kIsa>(args.kind)(args.step.bytes, arrays_of(task)); });
}

/// The kernel's arguments (update_opencl.hpp) from the task's buffers: p, states, w, g, clip.
void update_opencl_task(const rt::TaskView& task, rt::OpenclKernel& kernel) {
  const auto& args = task.args<Args>();
  kernel.add_bytes(std::span(args.step.bytes).first(rule_of(args.kind).step_size));
  kernel.add_value(std::int64_t{args.count});
  const Index states = states_of(args.kind);
  const bool has_working = args.kind.working != DType::kF32;
  const Index gradient = 1 + states + (has_working ? 1 : 0);
  kernel.add_buffer(gradient + 1);
  kernel.add_buffer(gradient);
  for (Index i = 0; i < gradient; ++i) kernel.add_buffer(i);
  kernel.run(args.count);
}

void update_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  const auto& args = task.args<Args>();
  if constexpr (kHasCudaKernels) {
    const char* fault = update_cuda(args.kind, args.step, arrays_of(task), stream);
    expect(fault == nullptr, "CUDA refuses the update of {} parameters: {}", args.count, fault);
  }
}

constexpr rt::CudaTask kCudaTask = kHasCudaKernels ? &update_cuda_task : nullptr;

rt::Codelet make_codelet(const UpdateKind& kind) {
  return rt::make_codelet<update_task, update_opencl_task, kCudaTask>(
      {.symbol = fmt::format("dos.update.{}.{}.{}.v1", rule_of(kind).name, name_of(kind.gradient),
                             name_of(kind.working)),
       .modes = modes_of(kind),
       .tail = {},
       .opencl = {.text = update_opencl_source(kind), .kernel = kUpdateOpenclKernel}});
}

/// In the order of all_update_kinds().
std::vector<std::unique_ptr<const rt::Codelet>> make_codelets() {
  std::vector<std::unique_ptr<const rt::Codelet>> result;
  for (const UpdateKind& kind : all_update_kinds())
    result.push_back(std::unique_ptr<const rt::Codelet>(new rt::Codelet(make_codelet(kind))));
  return result;
}

}  // namespace

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
  const UpdateKind kind{
      .rule = rule,
      .gradient = buffers.gradient.type(),
      .working = buffers.working == nullptr ? DType::kF32 : buffers.working->type()};
  require(std::ssize(buffers.states) == states_of(kind), "the states of the rule");
  require(buffers.working == nullptr || kind.working != DType::kF32,
          "FP32 working parameters are the parameters themselves");
  const Index count = buffers.parameters.count();
  // No device allocates a buffer of nothing.
  if (count == 0) return;
  std::vector<const rt::Handle*> all{&buffers.parameters};
  all.insert(all.end(), buffers.states.begin(), buffers.states.end());
  if (buffers.working != nullptr) all.push_back(buffers.working);
  all.insert(all.end(), {&buffers.gradient, &buffers.clip});
  const double operations = rule_of(kind).operations + 1;  // one for the clip factor
  submitter.submit(update_codelet(kind), all, Args{kind, count, step},
                   {operations * static_cast<double>(count), {count}}, options);
}

}  // namespace dos::codelets
