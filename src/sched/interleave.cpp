// SPDX-License-Identifier: Apache-2.0
#include "sched/interleave.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace dos::sched {
namespace {

std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

/// Of a subgroup's size: so far may one GPU be ahead of another to update what it uses itself.
constexpr double kUsersLead = 2;

double params_of(const Problem& problem, std::size_t subgroup) {
  return static_cast<double>(problem.subgroups[subgroup].params);
}

}  // namespace

Plan all_cpu(const Problem& problem) {
  Plan plan;
  plan.assignments.resize(problem.subgroups.size());
  plan.window.assign(problem.rates.gpus.size(), 0);
  plan.window_memory.assign(problem.rates.gpus.size(), units::Bytes{0});
  deal_weights(problem, plan);
  return plan;
}

const char* reason_for_all_cpu(const Problem& problem) {
  return problem.gpus() == 0 ? "there is no GPU: every update on the CPU"
                             : "the GPU cannot help: every update on the CPU";
}

std::string reason_as(const std::string& policy) {
  return "as " + policy + ", which no other share beats";
}

void place_residents(const Problem& problem, Plan& plan, const std::vector<units::Bytes>& amount) {
  std::vector<units::Bytes> left = amount;
  // Where their gradients are first, as long as there is room, then anywhere.
  for (const bool by_user : {true, false}) {
    for (std::size_t i = 0; i < plan.assignments.size() && !left.empty(); ++i) {
      const Index user = problem.subgroups[i].user;
      if (plan.assignments[i].placement != Placement::kCpu || (by_user && user < 0)) continue;
      const units::Bytes bytes = problem.held_bytes(static_cast<Index>(i));
      const auto roomiest = std::ranges::max_element(left);
      if (bytes > *roomiest) break;
      const auto gpu = by_user ? left.begin() + user : roomiest;
      if (bytes > *gpu) continue;
      *gpu -= bytes;
      plan.assignments[i] = {Placement::kResident, gpu - left.begin()};
    }
  }
}

namespace {

/// The entry of a subgroup's user, unless another has `lead` more left: the largest then.
template <class Amount>
auto user_or_largest(std::vector<Amount>& left, const Subgroup& subgroup, Amount lead) {
  const auto largest = std::ranges::max_element(left);
  if (subgroup.user < 0) return largest;
  const auto user = left.begin() + subgroup.user;
  return *largest - *user > lead ? largest : user;
}

}  // namespace

void spread_residents(const Problem& problem, Plan& plan, const std::vector<units::Bytes>& amount) {
  if (amount.empty()) return;
  units::Bytes wanted{0};
  for (const units::Bytes each : amount) wanted += each;
  const double fraction = std::min(1.0, wanted / (problem.total() * problem.cost.held()));
  std::vector<units::Bytes> left = amount;
  units::Bytes owed{0};
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    const units::Bytes bytes = problem.held_bytes(static_cast<Index>(i));
    owed += bytes * fraction;
    if (owed < bytes * 0.5) continue;
    const auto wished = user_or_largest(left, problem.subgroups[i], bytes * kUsersLead);
    const auto gpu = *wished < bytes ? std::ranges::max_element(left) : wished;
    if (*gpu < bytes) continue;
    owed -= bytes;
    *gpu -= bytes;
    plan.assignments[i] = {Placement::kResident, gpu - left.begin()};
  }
}

void spread_streamed(const Problem& problem, Plan& plan, const std::vector<units::Params>& amount) {
  double wanted = 0;
  for (const units::Params each : amount) wanted += each.value();
  double open = 0;
  for (std::size_t i = 0; i < plan.assignments.size(); ++i)
    if (plan.assignments[i].placement == Placement::kCpu) open += params_of(problem, i);
  if (wanted <= 0 || open <= 0) return;
  const double fraction = std::min(1.0, wanted / open);
  std::vector<units::Params> left = amount;
  double owed = 0;
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    if (plan.assignments[i].placement != Placement::kCpu) continue;
    const double params = params_of(problem, i);
    owed += params * fraction;
    // Half a subgroup is the most that rounding to whole ones may owe either way.
    if (owed < params / 2) continue;
    owed -= params;
    const auto gpu =
        user_or_largest(left, problem.subgroups[i], units::Params(params * kUsersLead));
    *gpu -= units::Params(params);
    plan.assignments[i] = {Placement::kStreamed, gpu - left.begin()};
  }
}

Index useful_window(const Problem& problem, Index gpu, Index params) {
  const perfmodels::GpuRates& rates = problem.rates.gpus[at(gpu)];
  const units::Params size(static_cast<double>(params));
  const units::Seconds latency =
      problem.rates.transfer_latency * static_cast<double>(problem.cost.state_buffers);
  const units::Seconds in = latency + size * problem.cost.streamed_in() / rates.h2d;
  const units::Seconds out = latency + size * problem.cost.streamed_out() / rates.d2h;
  const units::Seconds held = in + problem.rates.task_latency + size / rates.update + out;
  return static_cast<Index>(std::ceil(held / std::max(in, out))) + 1;
}

Index arrivals_at_once(const Problem& problem, Index gpu) {
  return useful_window(problem, gpu, problem.largest());
}

Index gradients_ahead(const Problem& problem, Index workers) {
  double meanwhile = 0;
  for (const perfmodels::GpuRates& gpu : problem.rates.gpus)
    meanwhile += problem.rates.cpu_update * problem.cost.streamed_out() / gpu.d2h;
  return workers + 2 * static_cast<Index>(std::ceil(meanwhile));
}

void set_windows(const Problem& problem, Plan& plan, std::optional<Index> asked) {
  for (Index g = 0; g < problem.gpus(); ++g) {
    Index largest = 0;
    units::Bytes resident{0};
    units::Bytes held{0};  // by the largest that is streamed, here or, with what it uses, there
    units::Bytes slot{0};
    for (const Index i : plan.gpu_order(g)) {
      if (plan.assignments[at(i)].placement == Placement::kResident) {
        resident += problem.held_bytes(i);
        continue;
      }
      largest = std::max(largest, problem.subgroups[at(i)].params);
      held = std::max(held, problem.held_bytes(i));
      slot = std::max(slot, problem.streamed_bytes(i, g));
    }
    plan.window[at(g)] = 0;
    plan.window_memory[at(g)] = units::Bytes{0};
    if (largest == 0) continue;
    const units::Bytes room = problem.memory[at(g)].update - resident;
    // For one the runtime makes room, if need be, by what the other GPU's passes have here.
    const bool fits_alone = room.value() * (1 + 1e-12) >= held.value();
    const auto fitting = std::max<Index>(fits_alone ? 1 : 0,
                                         static_cast<Index>(std::floor(room / slot * (1 + 1e-12))));
    expect(fitting >= 1,
           "GPU {} has {:.3f} GB free for states during the update, one subgroup of {} parameters "
           "needs {:.3f} GB: use {}policy zero-offload",
           g, room.value() / 1e9, largest, slot.value() / 1e9,
           room.value() > 0 ? "a smaller sched.subgroup_params or " : "");
    expect(!asked || *asked <= fitting,
           "sched.window = {} subgroups of {} parameters need {:.3f} GB, GPU {} has {:.3f} GB: at "
           "most {}",
           asked.value_or(0), largest,
           (slot * static_cast<double>(asked.value_or(0))).value() / 1e9, g, room.value() / 1e9,
           fitting);
    plan.window[at(g)] = asked ? *asked : std::min(fitting, useful_window(problem, g, largest));
    plan.window_memory[at(g)] = slot * static_cast<double>(plan.window[at(g)]);
  }
}

void deal_weights(const Problem& problem, Plan& plan) {
  std::vector<double> dealt(problem.rates.gpus.size(), 0.0);
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    Assignment& assignment = plan.assignments[i];
    if (assignment.placement != Placement::kCpu) continue;
    const Index user = problem.subgroups[i].user;
    const auto least = std::ranges::min_element(dealt);
    assignment.gpu = user >= 0 || dealt.empty() ? user : least - dealt.begin();
    if (assignment.gpu >= 0) dealt[at(assignment.gpu)] += params_of(problem, i);
  }
}

}  // namespace dos::sched
