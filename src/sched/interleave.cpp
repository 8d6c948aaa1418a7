// SPDX-License-Identifier: Apache-2.0
#include "sched/interleave.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "base/small_sizes.hpp"

namespace dos::sched {
namespace {

std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

/// Of sums of whole subgroups, relatively.
constexpr double kRounding = 1e-12;

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

namespace {

std::vector<std::size_t> in_order(const Problem& problem) {
  std::vector<std::size_t> order(problem.subgroups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

BySmallness by_smallness(const Problem& problem) {
  std::vector<Index> sizes;
  for (const Subgroup& each : problem.subgroups) sizes.push_back(each.params);
  return dos::by_smallness(sizes);
}

/// By size, in classes between powers of two, the largest first; of a class as they come.
std::vector<std::vector<std::size_t>> by_size(const Problem& problem) {
  std::map<Index, std::vector<std::size_t>, std::greater<>> classes;
  for (const std::size_t i : in_order(problem))
    classes[static_cast<Index>(
                std::bit_width(static_cast<std::uint64_t>(problem.subgroups[i].params)))]
        .push_back(i);
  std::vector<std::vector<std::size_t>> result;
  for (auto& [width, members] : classes) result.push_back(std::move(members));
  return result;
}

units::Bytes sum_of(const std::vector<units::Bytes>& amounts) {
  units::Bytes sum{0};
  for (const units::Bytes each : amounts) sum += each;
  return sum;
}

units::Bytes held_by(const Problem& problem, const std::vector<std::size_t>& subgroups) {
  units::Bytes sum{0};
  for (const std::size_t i : subgroups) sum += problem.held_bytes(static_cast<Index>(i));
  return sum;
}

/// Those of `order` that fit into what is `left` of each GPU.
void place(const Problem& problem, Plan& plan, std::vector<units::Bytes>& left,
           const std::vector<std::size_t>& order) {
  if (left.empty()) return;
  // Where their gradients are first, as long as there is room, then anywhere.
  for (const bool by_user : {true, false}) {
    for (const std::size_t i : order) {
      const Index user = problem.subgroups[i].user;
      if (!is_on_cpu(plan.assignments[i]) || (by_user && user < 0)) continue;
      const units::Bytes bytes = problem.held_bytes(static_cast<Index>(i));
      const auto gpu = by_user ? left.begin() + user : std::ranges::max_element(left);
      if (bytes > *gpu) continue;
      *gpu -= bytes;
      plan.assignments[i] = resident_on(gpu - left.begin());
    }
  }
}

/// Deals subgroups to GPUs, spread evenly over the order: each GPU gets what is `left` of it, in
/// bytes where states stay, else in parameters.
class Dealer {
 public:
  Dealer(const Problem& problem, Plan& plan, bool stays, std::vector<double> left)
      : problem_(problem), plan_(plan), stays_(stays), left_(std::move(left)) {}

  /// First what a GPU uses itself, since then no gradient goes from one to another; when more than
  /// a subgroup a GPU is left, what others use, too.
  void deal(const std::vector<std::size_t>& order) {
    std::vector<std::vector<std::size_t>> used_by(left_.size() + 1);
    for (const std::size_t i : order)
      if (is_on_cpu(plan_.assignments[i])) used_by[at(problem_.subgroups[i].user + 1)].push_back(i);
    for (std::size_t g = 0; g < left_.size(); ++g)
      spread(used_by[g + 1], left_[g], static_cast<Index>(g));
    std::vector<std::size_t> rest;
    double largest = 0;
    for (const std::size_t i : order) {
      if (!is_on_cpu(plan_.assignments[i])) continue;
      rest.push_back(i);
      if (problem_.subgroups[i].user >= 0) largest = std::max(largest, amount_of(i));
    }
    const double all = std::accumulate(left_.begin(), left_.end(), 0.0);
    if (all > largest * static_cast<double>(left_.size())) spread(rest, all, kAny);
  }

 private:
  static constexpr Index kAny = -1;

  [[nodiscard]] double amount_of(std::size_t i) const {
    return stays_ ? problem_.held_bytes(static_cast<Index>(i)).value() : params_of(problem_, i);
  }

  /// `wanted` of `members`, to one GPU, or to the one with most left: whatever part of
  /// the order is done, that part of it is chosen, rounded to whole subgroups (error diffusion).
  void spread(const std::vector<std::size_t>& members, double wanted, Index gpu) {
    double all = 0;
    for (const std::size_t i : members) all += amount_of(i);
    if (wanted <= 0 || all <= 0) return;
    const double fraction = std::min(1.0, wanted / all);
    double owed = 0;
    for (const std::size_t i : members) {
      const double amount = amount_of(i);
      owed += amount * fraction;
      // Half a subgroup is the most that rounding to whole ones may owe either way.
      if (owed < amount / 2) continue;
      const auto left = gpu == kAny ? std::ranges::max_element(left_) : left_.begin() + gpu;
      if (stays_ && *left < amount * (1 - kRounding)) continue;
      owed -= amount;
      *left -= amount;
      const Index device = left - left_.begin();
      plan_.assignments[i] = stays_ ? resident_on(device) : streamed_to(device);
    }
  }

  const Problem& problem_;
  Plan& plan_;
  bool stays_;
  std::vector<double> left_;
};

template <class Amount>
std::vector<double> values(const std::vector<Amount>& amounts) {
  std::vector<double> values;
  for (const Amount each : amounts) values.push_back(each.value());
  return values;
}

}  // namespace

void place_residents(const Problem& problem, Plan& plan, const std::vector<units::Bytes>& amount) {
  std::vector<units::Bytes> left = amount;
  const auto [small, others] = by_smallness(problem);
  for (const auto* order : {&small, &others}) place(problem, plan, left, *order);
}

void spread_residents(const Problem& problem, Plan& plan, const std::vector<units::Bytes>& amount) {
  std::vector<units::Bytes> left = amount;
  const auto [small, others] = by_smallness(problem);
  place(problem, plan, left, small);
  Dealer(problem, plan, /*stays=*/true, values(left)).deal(others);
}

void place_largest(const Problem& problem, Plan& plan, const std::vector<units::Bytes>& amount) {
  std::vector<units::Bytes> left = amount;
  for (const std::vector<std::size_t>& members : by_size(problem)) {
    if (held_by(problem, members) > sum_of(left)) {
      Dealer(problem, plan, /*stays=*/true, values(left)).deal(members);
      return;
    }
    place(problem, plan, left, members);
  }
}

void spread_streamed(const Problem& problem, Plan& plan, const std::vector<units::Params>& amount,
                     double front) {
  double wanted = 0;
  for (const units::Params each : amount) wanted += each.value();
  double left = 0;
  for (std::size_t i = 0; i < plan.assignments.size(); ++i)
    if (is_on_cpu(plan.assignments[i])) left += params_of(problem, i);
  const bool is_all = wanted >= left * (1 - kRounding);
  const std::vector<std::size_t> order = is_all ? in_order(problem) : by_smallness(problem).others;
  const double before = problem.total().value() * front;
  double params = 0;
  const auto rest = std::ranges::find_if(
      order, [&](std::size_t i) { return (params += params_of(problem, i)) > before; });
  Dealer dealer(problem, plan, /*stays=*/false, values(amount));
  dealer.deal({order.begin(), rest});
  dealer.deal({rest, order.end()});
}

std::vector<units::Bytes> resident_room(const Problem& problem, const PolicyOptions& options) {
  std::vector<units::Bytes> room;
  for (const StateMemory& gpu : problem.memory)
    room.push_back(options.residents ? std::min(gpu.update, gpu.resident) : units::Bytes{0});
  return room;
}

Index size_behind_largest(const Problem& problem, const PolicyOptions& options) {
  units::Bytes room = sum_of(resident_room(problem, options));
  for (const std::vector<std::size_t>& members : by_size(problem)) {
    room -= held_by(problem, members);
    if (room.value() >= 0) continue;
    Index largest = 0;
    for (const std::size_t i : members) largest = std::max(largest, problem.subgroups[i].params);
    return largest;
  }
  return problem.largest();
}

namespace {

/// Copies in flight where an update waits so long for the GPU.
Index window_for(const Problem& problem, Index gpu, Index params, units::Seconds wait) {
  const perfmodels::GpuRates& rates = problem.rates.gpus[at(gpu)];
  const units::Params size(static_cast<double>(params));
  const units::Seconds latency =
      problem.rates.transfer_latency * static_cast<double>(problem.cost.state_buffers);
  const units::Seconds in = latency + size * problem.cost.streamed_in() / rates.h2d;
  const units::Seconds out = latency + size * problem.cost.streamed_out() / rates.d2h;
  const units::Seconds held = in + wait + problem.rates.task_latency + size / rates.update + out;
  return static_cast<Index>(std::ceil(held / std::max(in, out))) + 1;
}

}  // namespace

Index useful_window(const Problem& problem, Index gpu, Index params) {
  return window_for(problem, gpu, params, problem.rates.gpus[at(gpu)].wait);
}

Index least_window(const Problem& problem, Index gpu, Index params) {
  return window_for(problem, gpu, params, units::Seconds(0));
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

namespace {

/// The most bytes beside their states that `window` updates in a row hold, of `visits` in order.
units::Bytes most_in_a_row(const std::vector<units::Bytes>& visits, Index window) {
  units::Bytes sum{0};
  units::Bytes most{0};
  for (std::size_t i = 0; i < visits.size(); ++i) {
    sum += visits[i];
    if (i >= at(window)) sum -= visits[i - at(window)];
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

void set_windows(const Problem& problem, Plan& plan, std::optional<Index> asked) {
  for (Index g = 0; g < problem.gpus(); ++g) {
    Index largest = 0;
    units::Bytes resident{0};
    units::Bytes slot{0};
    std::vector<units::Bytes> visits;
    for (const Index i : plan.gpu_order(g)) {
      if (is_resident(plan.assignments[at(i)])) {
        resident += problem.held_bytes(i);
        continue;
      }
      largest = std::max(largest, problem.subgroups[at(i)].params);
      slot = std::max(slot, problem.held_bytes(i));
      visits.push_back(problem.streamed_bytes(i, g) - problem.held_bytes(i));
    }
    plan.window[at(g)] = 0;
    plan.window_memory[at(g)] = units::Bytes{0};
    if (largest == 0) continue;
    const units::Bytes room = problem.memory[at(g)].update - resident;
    const auto fitting = static_cast<Index>(std::floor(room / slot * (1 + 1e-12)));
    expect(fitting >= 1,
           "GPU {} has {:.3f} GB free for states during the update, one subgroup of {} parameters "
           "needs {:.3f} GB: use {}policy zero-offload",
           g, room.value() / 1e9, largest, slot.value() / 1e9,
           room.value() > 0 ? "a smaller sched.subgroup_params or " : "");
    Index window = std::min(fitting, asked.value_or(useful_window(problem, g, largest)));
    // What hides a task of forward has the memory that forward leaves.
    if (!asked && !problem.forward.empty()) {
      const units::Bytes left = std::min(room, problem.memory[at(g)].resident - resident);
      window = std::min(
          window, std::max(static_cast<Index>(left / slot), least_window(problem, g, largest)));
    }
    const auto needed = [&](Index count) {
      return slot * static_cast<double>(count) + most_in_a_row(visits, count);
    };
    // For one the runtime makes room, if need be, by what other GPUs' passes have here.
    while (window > 1 && needed(window) > room * (1 + 1e-12)) --window;
    expect(!asked || *asked <= window,
           "sched.window = {} subgroups of {} parameters need {:.3f} GB, GPU {} has {:.3f} GB: at "
           "most {}",
           asked.value_or(0), largest, needed(asked.value_or(0)).value() / 1e9, g,
           room.value() / 1e9, window);
    plan.window[at(g)] = window;
    plan.window_memory[at(g)] = slot * static_cast<double>(window);
  }
}

void deal_weights(const Problem& problem, Plan& plan) {
  std::vector<double> dealt(problem.rates.gpus.size(), 0.0);
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    Assignment& assignment = plan.assignments[i];
    if (!is_on_cpu(assignment)) continue;
    const Index user = problem.subgroups[i].user;
    const auto least = std::ranges::min_element(dealt);
    assignment.reader = user >= 0 || dealt.empty() ? user : least - dealt.begin();
    if (assignment.reader >= 0) dealt[at(assignment.reader)] += params_of(problem, i);
  }
}

}  // namespace dos::sched
