// SPDX-License-Identifier: Apache-2.0
#include "calibration/update_set.hpp"

#include <algorithm>

#include "base/bf16.hpp"
#include "codelets/update/update_stream.hpp"

namespace dos::calibration {
namespace {

using codelets::UpdateArrays;
using codelets::UpdateKind;
using rt::Mode;

/// Of the middle of a training run: no denormal numbers, a second moment that is positive.
constexpr float kValue = 1e-3F;
constexpr codelets::Hyperparameters kHyper{
    .beta1 = 0.9F, .beta2 = 0.95F, .momentum = 0.9F, .eps = 1e-8F, .weight_decay = 0.1F};
constexpr float kLearningRate = 1e-4F;
constexpr Index kStep = 1000;

const codelets::RuleInfo& rule_of(const UpdateKind& kind) {
  return codelets::all_rules()[static_cast<std::size_t>(kind.rule)];
}

Index states_of(const UpdateKind& kind) {
  return std::ssize(rule_of(kind).states);
}

bool has_working(const UpdateKind& kind) {
  return kind.working != DType::kF32;
}

struct Args {
  UpdateKind kind;
  Index count;
};

/// Buffers: p, the states, w unless p is the working parameters, g.
void touch_task(const rt::TaskView& task) {
  const auto& args = task.args<Args>();
  Index buffer = 0;
  const auto fill = [&](DType type) {
    if (type == DType::kBF16)
      std::fill_n(task.pointer<BF16>(buffer++), args.count, to_bf16(kValue));
    else
      std::fill_n(task.pointer<float>(buffer++), args.count, kValue);
  };
  for (Index i = 0; i < 1 + states_of(args.kind); ++i) fill(DType::kF32);
  if (has_working(args.kind)) fill(args.kind.working);
  fill(args.kind.gradient);
}

void stream_task(const rt::TaskView& task) {
  const auto& args = task.args<Args>();
  UpdateArrays arrays{};
  arrays.count = args.count;
  Index buffer = 0;
  arrays.p = task.pointer<float>(buffer++);
  for (Index i = 0; i < states_of(args.kind); ++i) arrays.states[i] = task.pointer<float>(buffer++);
  if (has_working(args.kind)) arrays.w = task.pointer<BF16>(buffer++);
  arrays.g = task.pointer<const void>(buffer);
  simd::dispatch([&]<simd::Isa kIsa>() {
    codelets::update_stream<kIsa>(args.kind, states_of(args.kind), /*fetches_ahead=*/true)(arrays);
  });
}

const rt::Codelet& touch_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<touch_task>(
      {.symbol = "dos.calibration.touch.v1", .modes = {}, .tail = Mode::kWrite});
  return codelet;
}

const rt::Codelet& stream_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<stream_task>(
      {.symbol = "dos.calibration.stream.v1", .modes = {}, .tail = Mode::kReadWrite});
  return codelet;
}

std::vector<const rt::Handle*> addresses(const std::vector<std::unique_ptr<rt::Handle>>& handles) {
  std::vector<const rt::Handle*> result;
  for (const auto& handle : handles) result.push_back(handle.get());
  return result;
}

}  // namespace

std::vector<const rt::Codelet*> set_codelets() {
  return {&touch_codelet(), &stream_codelet()};
}

Index stored_bytes_per_parameter(const UpdateKind& kind) {
  return size_of(DType::kF32) * (1 + states_of(kind)) + size_of(kind.gradient) +
         (has_working(kind) ? size_of(kind.working) : 0);
}

UpdateSet::UpdateSet(rt::Submitter& submitter, const UpdateKind& kind, Index subgroups,
                     Index params_each)
    : UpdateSet(submitter, kind,
                std::vector<Index>(static_cast<std::size_t>(subgroups), params_each)) {}

UpdateSet::UpdateSet(rt::Submitter& submitter, const UpdateKind& kind,
                     const std::vector<Index>& params)
    : submitter_(submitter),
      kind_(kind),
      clip_(std::make_unique<rt::Handle>(submitter.session(),
                                         rt::HandleSpec{.name = "clip", .count = 1})) {
  rt::HostAccess(*clip_, Mode::kReadWrite).as<float>()[0] = 1.0F;
  for (const Index count : params) {
    subgroups_.push_back(make_subgroup(count));
    submitter_.submit(touch_codelet(), addresses(subgroups_.back().buffers), Args{kind_, count},
                      {.flops = 0, .sizes = {count}}, {.worker = rt::kAnyCpuWorker});
  }
  submitter_.session().wait_all();
}

UpdateSet::Subgroup UpdateSet::make_subgroup(Index params) const {
  Subgroup subgroup;
  subgroup.params = params;
  const auto add = [&](const char* name, DType type, MemoryCategory category) {
    subgroup.buffers.push_back(std::make_unique<rt::Handle>(
        submitter_.session(),
        rt::HandleSpec{.name = name, .type = type, .count = params, .category = category}));
    return subgroup.buffers.back().get();
  };
  add("p", DType::kF32, MemoryCategory::kParameters);
  for (const char* state : rule_of(kind_).states)
    subgroup.states.push_back(add(state, DType::kF32, MemoryCategory::kStates));
  if (has_working(kind_)) subgroup.working = add("w", kind_.working, MemoryCategory::kWorking);
  add("g", kind_.gradient, MemoryCategory::kGradients);
  return subgroup;
}

void UpdateSet::submit_updates(int worker) const {
  for (Index i = 0; i < subgroups(); ++i) submit_update(i, {.worker = worker});
}

void UpdateSet::submit_update(Index place, const rt::TaskOptions& options) const {
  const Subgroup& subgroup = at(place);
  codelets::submit_update(submitter_, kind_.rule, rule_of(kind_).step(kHyper, kLearningRate, kStep),
                          {.parameters = *subgroup.buffers.front(),
                           .states = subgroup.states,
                           .working = subgroup.working,
                           .gradient = *subgroup.buffers.back(),
                           .clip = *clip_},
                          options);
}

const UpdateSet::Subgroup& UpdateSet::at(Index subgroup) const {
  return subgroups_[static_cast<std::size_t>(subgroup)];
}

const rt::Handle& UpdateSet::working(Index subgroup) const {
  const Subgroup& s = at(subgroup);
  return s.working != nullptr ? *s.working : *s.buffers.front();
}

const rt::Handle& UpdateSet::gradient(Index subgroup) const {
  return *at(subgroup).buffers.back();
}

void UpdateSet::submit_streams() const {
  for (const Subgroup& subgroup : subgroups_)
    submitter_.submit(stream_codelet(), addresses(subgroup.buffers), Args{kind_, subgroup.params},
                      {.flops = 0, .sizes = {subgroup.params}}, {.worker = rt::kAnyCpuWorker});
}

double UpdateSet::params() const {
  Index sum = 0;
  for (const Subgroup& subgroup : subgroups_) sum += subgroup.params;
  return static_cast<double>(sum);
}

double UpdateSet::traffic_bytes() const {
  return params() * static_cast<double>(codelets::bytes_per_parameter(kind_, states_of(kind_)));
}

}  // namespace dos::calibration
