// SPDX-License-Identifier: Apache-2.0
#include "sched/policy_registry.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "sched/dos.hpp"
#include "sched/dos_stride.hpp"
#include "sched/gpu_only.hpp"
#include "sched/mlp_offload.hpp"
#include "sched/twinflow.hpp"
#include "sched/zero_infinity.hpp"
#include "sched/zero_offload.hpp"

namespace dos::sched {
namespace {

constexpr std::array kPolicies{
    Policy{.name = "dos",
           .summary = "fractional share from the cost model, evenly interleaved",
           .plan = &plan_dos,
           .reads = {.stride = true, .share = true, .window = true},
           .adapts = true,
           .chooses_homes = true},
    Policy{.name = "dos-stride",
           .summary = "every k-th subgroup on the GPU",
           .plan = &plan_dos_stride,
           .reads = {.stride = true, .window = true, .published = true}},
    Policy{.name = "zero-offload",
           .summary = "all on the CPU",
           .plan = &plan_zero_offload,
           .reads = {.published = true},
           .uses_gpus = false},
    Policy{.name = "twinflow",
           .summary = "a static share stays on the GPU, the rest on the CPU",
           .plan = &plan_twinflow,
           .reads = {.share = true, .published = true}},
    Policy{.name = "gpu-only",
           .summary = "all on the GPU",
           .plan = &plan_gpu_only,
           .reads = {.window = true}},
    Policy{.name = "zero-infinity",
           .summary = "all on the CPU, all states on one disk",
           .plan = &plan_zero_infinity,
           .reads = {.published = true},
           .uses_gpus = false,
           .chooses_homes = true},
    Policy{.name = "mlp-offload",
           .summary = "all on the CPU, states over several disks",
           .plan = &plan_mlp_offload,
           .reads = {.published = true},
           .uses_gpus = false,
           .chooses_homes = true},
};

}  // namespace

std::span<const Policy> policies() {
  return kPolicies;
}

const Policy* own_policy(const std::string& name) {
  const auto* found =
      std::ranges::find_if(kPolicies, [&](const Policy& policy) { return name == policy.name; });
  return found == kPolicies.end() ? nullptr : found;
}

const Policy& find_policy(const std::string& name) {
  if (const Policy* found = own_policy(name)) return *found;
  std::vector<std::string> names;
  for (const Policy& policy : kPolicies) names.emplace_back(policy.name);
  fail("unknown policy '{}'{}; known: {}", name, did_you_mean(name, names), fmt::join(names, ", "));
}

}  // namespace dos::sched
