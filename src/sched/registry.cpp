// SPDX-License-Identifier: Apache-2.0
#include "sched/registry.hpp"

#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "sched/dos.hpp"
#include "sched/dos_stride.hpp"
#include "sched/gpu_only.hpp"
#include "sched/twinflow.hpp"
#include "sched/zero_offload.hpp"

namespace dos::sched {
namespace {

constexpr std::array kPolicies{
    Policy{"dos", "fractional share from the cost model, evenly interleaved", &plan_dos, true},
    Policy{"dos-stride", "every k-th subgroup on the GPU", &plan_dos_stride},
    Policy{.name = "zero-offload",
           .summary = "all on the CPU",
           .plan = &plan_zero_offload,
           .uses_gpus = false},
    Policy{"twinflow", "a static share stays on the GPU, the rest on the CPU", &plan_twinflow},
    Policy{"gpu-only", "all on the GPU", &plan_gpu_only},
};

}  // namespace

std::span<const Policy> policies() {
  return kPolicies;
}

const Policy& find_policy(const std::string& name) {
  std::vector<std::string> names;
  for (const Policy& policy : kPolicies) {
    if (name == policy.name) return policy;
    names.emplace_back(policy.name);
  }
  fail("unknown policy '{}'{}; known: {}", name, did_you_mean(name, names), fmt::join(names, ", "));
}

}  // namespace dos::sched
