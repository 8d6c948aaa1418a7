// SPDX-License-Identifier: Apache-2.0
#include "sched/dos.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "sched/interleave.hpp"
#include "sched/registry.hpp"
#include "sched/replay.hpp"

namespace dos::sched {
namespace {

template <class Q>
double sum_of(const std::vector<Q>& amounts) {
  double sum = 0;
  for (const Q each : amounts) sum += each.value();
  return sum;
}

/// Keeps the fastest of the plans that it is shown.
class Search {
 public:
  Search(const Problem& problem, const PolicyOptions& options)
      : problem_(problem), options_(options) {}

  /// States of these sizes on the GPUs, residents in front or spread. Returns the faster plan's
  /// time, nothing when they do not fit.
  std::optional<units::Seconds> try_shares(const std::vector<units::Bytes>& resident,
                                           const std::vector<units::Params>& streamed,
                                           std::optional<Index> window) {
    const auto front = try_residents(place_residents, resident, streamed, window);
    const bool mixes = sum_of(resident) > 0 && sum_of(streamed) > 0;
    const auto spread =
        mixes ? try_residents(spread_residents, resident, streamed, window) : std::nullopt;
    return front && spread ? std::min(*front, *spread) : front ? front : spread;
  }

  void try_policy(const Policy& policy) {
    try {
      Plan plan = policy.plan(problem_, options_);
      plan.reason = reason_as(policy.name);
      consider(std::move(plan));
    } catch (const Error&) {
      // A policy that cannot place this problem proposes nothing.
    }
  }

  [[nodiscard]] bool found() const { return best_.has_value(); }
  [[nodiscard]] const std::string& obstacle() const { return obstacle_; }
  [[nodiscard]] Index cpu_updates() const { return std::ssize(best_->cpu_order()); }
  Plan take() { return std::move(*best_); }

 private:
  template <class Place>
  std::optional<units::Seconds> try_residents(Place&& place,
                                              const std::vector<units::Bytes>& resident,
                                              const std::vector<units::Params>& streamed,
                                              std::optional<Index> window) {
    Plan plan = all_cpu(problem_);
    place(problem_, plan, resident);
    spread_streamed(problem_, plan, streamed);
    deal_weights(problem_, plan);
    try {
      set_windows(problem_, plan, window);
    } catch (const Error& error) {
      obstacle_ = error.what();
      return std::nullopt;
    }
    plan.reason = "shares of the linear programme, rounded to subgroups by replay";
    return consider(std::move(plan));
  }

  units::Seconds consider(Plan plan) {
    plan.execution.half_duplex = options_.half_duplex;
    const units::Seconds time = replay(problem_, plan).update_end;
    // A tie within rounding keeps the earlier plan: the result must not hang on the last bit.
    if (!best_ || time.value() < best_time_.value() * (1 - 1e-9)) {
      best_ = std::move(plan);
      best_time_ = time;
    }
    return time;
  }

  const Problem& problem_;
  const PolicyOptions& options_;
  std::optional<Plan> best_;
  units::Seconds best_time_{0};
  std::string obstacle_;
};

struct Shares {
  std::vector<units::Bytes> resident;
  std::vector<units::Params> streamed;
};

Shares scaled(const Shares& shares, double factor) {
  Shares result = shares;
  for (units::Params& each : result.streamed) each = each * factor;
  return result;
}

units::Bytes slot_of(const Problem& problem) {
  return units::Params(static_cast<double>(problem.largest())) * problem.cost.held();
}

/// What residents may take of a GPU, beside the window of what is streamed there, if anything.
units::Bytes room_for_residents(const Problem& problem, const PolicyOptions& options, Index gpu,
                                bool streams) {
  if (!options.residents) return units::Bytes{0};
  const StateMemory& memory = problem.memory[static_cast<std::size_t>(gpu)];
  units::Bytes room = std::min(memory.update, memory.resident);
  if (streams) {
    const Index window = options.window.value_or(useful_window(problem, gpu, problem.largest()));
    room = std::min(room, memory.update - slot_of(problem) * static_cast<double>(window));
  }
  return std::max(units::Bytes{0}, room);
}

/// The optimum's shares; residents leave room for the window of what is streamed.
Shares shares_of(const Problem& problem, const PolicyOptions& options, const Bound& bound) {
  Shares shares{{}, bound.streamed};
  for (Index g = 0; g < problem.gpus(); ++g) {
    const auto gpu = static_cast<std::size_t>(g);
    const bool streams = bound.streamed[gpu] > problem.total() * 1e-9;
    // The optimum rounded up by one subgroup: rounding down would leave memory unused.
    const units::Bytes wanted = bound.resident[gpu] * problem.cost.held() + slot_of(problem);
    shares.resident.push_back(std::min(room_for_residents(problem, options, g, streams), wanted));
  }
  return shares;
}

/// `cpu` for the CPU; of the rest as many residents as there is room for, what is left streamed
/// evenly. Nothing is for the CPU where a worker needs longer for one subgroup than GPUs for all.
Shares shares_beside(const Problem& problem, const PolicyOptions& options, units::Params cpu) {
  Shares shares;
  units::Params left = std::max(units::Params{0}, problem.total() - cpu);
  const units::Params each = left / static_cast<double>(problem.gpus());
  for (Index g = 0; g < problem.gpus(); ++g) {
    const units::Bytes states = each * problem.cost.held();
    const bool streams = states > room_for_residents(problem, options, g, /*streams=*/false);
    shares.resident.push_back(std::min(states, room_for_residents(problem, options, g, streams)));
    left -= shares.resident.back() / problem.cost.held();
  }
  // Whole subgroups may leave room for residents unused, on each GPU less than one.
  const units::Params one(cpu.value() > 0 ? 0 : static_cast<double>(problem.largest()));
  shares.streamed.assign(shares.resident.size(), left / static_cast<double>(problem.gpus()) + one);
  return shares;
}

/// How many more updates the CPU would have, or fewer, with whole rounds of its workers, and a few
/// beside that and beside `updates`: GPUs round to whole subgroups, too.
std::set<Index> to_whole_rounds(Index updates, Index workers) {
  const Index fewer = updates % workers;
  std::set<Index> result;
  for (const Index extra :
       {-fewer - workers, -fewer, Index{0}, workers - fewer, 2 * workers - fewer})
    for (Index beside = -2; beside <= 2; ++beside) result.insert(extra + beside);
  result.erase(0);
  return result;
}

/// `start` with room for a window of `window`: so much fewer residents, and more that is streamed.
Shares with_window(const Problem& problem, const PolicyOptions& options, const Shares& start,
                   Index window) {
  Shares shares = start;
  PolicyOptions wider = options;
  wider.window = window;
  for (Index g = 0; g < problem.gpus(); ++g) {
    units::Bytes& resident = shares.resident[static_cast<std::size_t>(g)];
    const units::Bytes room = room_for_residents(problem, wider, g, /*streams=*/true);
    if (resident <= room) continue;
    shares.streamed[static_cast<std::size_t>(g)] += (resident - room) / problem.cost.held();
    resident = room;
  }
  return shares;
}

/// One direction of search: more or less that is streamed, from `start`.
class Line {
 public:
  Line(const Problem& problem, const PolicyOptions& options, Search& search, Shares start,
       std::optional<Index> window)
      : problem_(problem),
        search_(search),
        start_(std::move(start)),
        window_(window),
        streamed_(sum_of(start_.streamed)) {
    if (options.window) window_ = options.window;
  }

  [[nodiscard]] double at() const { return at_; }

  /// Steps in both directions, halving, while it gets faster.
  void descend() {
    auto best = time_of(1);
    if (streamed_ <= 0 || !best) return;
    for (double step = 0.16; step > one_subgroup() / 4 && step > 0.002; step /= 2) {
      for (const double factor : {at_ - step, at_ + step}) {
        const auto time = time_of(factor);
        if (!time || !(*time < *best)) continue;
        best = time;
        at_ = factor;
      }
    }
  }

  /// Whole rounds of the CPU's workers: a last round of a few subgroups costs as much as a full
  /// one.
  void round() {
    if (streamed_ <= 0 || !search_.found()) return;
    for (const Index extra : to_whole_rounds(search_.cpu_updates(), problem_.rates.cpu_workers))
      time_of(at_ - static_cast<double>(extra) * one_subgroup());
  }

 private:
  std::optional<units::Seconds> time_of(double factor) {
    if (factor < 0) return std::nullopt;
    const Shares shares = scaled(start_, factor);
    return search_.try_shares(shares.resident, shares.streamed, window_);
  }
  [[nodiscard]] double one_subgroup() const {
    return static_cast<double>(problem_.largest()) / streamed_;
  }

  const Problem& problem_;
  Search& search_;
  Shares start_;
  std::optional<Index> window_;
  double streamed_;
  double at_ = 1;
};

/// The shares of the linear programme, what is near them on the line, and wider windows.
void search_near(const Problem& problem, const PolicyOptions& options, Search& search,
                 const Shares& start) {
  Line line(problem, options, search, start, {});
  line.descend();
  line.round();
  if (options.window || sum_of(start.streamed) <= 0) return;
  // Working parameters and gradients come between states: more copies ahead bridge that, with as
  // much memory for residents less.
  const Shares near = scaled(start, line.at());
  for (const Index factor : {2, 4}) {
    const Index window = factor * useful_window(problem, 0, problem.largest());
    for (const Shares& shares : {near, with_window(problem, options, near, window)}) {
      Line wider(problem, options, search, shares, window);
      wider.round();
    }
  }
}

/// Whether a CPU at work limits copies.
bool slows_links(const perfmodels::Rates& rates) {
  return std::ranges::any_of(rates.gpus, [](const perfmodels::GpuRates& gpu) {
    return gpu.h2d_cpu_busy < gpu.h2d || gpu.d2h_cpu_busy < gpu.d2h || gpu.both_cpu_busy < gpu.both;
  });
}

/// The GPU share that the user asked for: residents first, the rest streamed.
Plan fixed_share(const Problem& problem, const PolicyOptions& options, double share) {
  expect(problem.gpus() > 0 || share == 0, "sched.share = {:g} needs a GPU, this machine has none",
         share);
  const double part = share / std::max(1.0, static_cast<double>(problem.gpus()));
  Bound bound = lower_bound(problem, {.residents = options.residents, .deals_evenly = true});
  bound.streamed.assign(problem.rates.gpus.size(), problem.total() * part);
  bound.resident = bound.streamed;
  Shares shares = shares_of(problem, options, bound);
  for (std::size_t g = 0; g < shares.resident.size(); ++g) {
    shares.resident[g] = std::min(shares.resident[g], bound.streamed[g] * problem.cost.held());
    shares.streamed[g] -= shares.resident[g] / problem.cost.held();
  }
  Search search(problem, options);
  search.try_shares(shares.resident, shares.streamed, options.window);
  expect(search.found(), "{}", search.obstacle());
  Plan plan = search.take();
  plan.reason = fmt::format("sched.share = {:g}", share);
  return plan;
}

}  // namespace

Plan plan_dos(const Problem& problem, const PolicyOptions& options) {
  expect(!options.published,
         "sched.published=true models the published code: use policy "
         "dos-stride, twinflow or zero-offload");
  if (options.share) return fixed_share(problem, options, *options.share);
  if (options.stride)
    return fixed_share(problem, options, 1.0 / static_cast<double>(*options.stride));
  Search search(problem, options);
  for (const Policy& policy : policies())
    if (policy.plan != &plan_dos) search.try_policy(policy);
  if (problem.gpus() > 0) {
    for (const bool busy : {false, true}) {
      if (busy && !slows_links(problem.rates)) break;
      const Bound bound = lower_bound(problem, {.busy_links = busy,
                                                .half_duplex = options.half_duplex,
                                                .residents = options.residents,
                                                .deals_evenly = true});
      search_near(problem, options, search, shares_of(problem, options, bound));
    }
    const units::Params round(static_cast<double>(problem.rates.cpu_workers * problem.largest()));
    const units::Params wanted =
        lower_bound(problem, {.half_duplex = options.half_duplex, .residents = options.residents})
            .cpu;
    const double rounds = std::floor(wanted / round);
    for (const double count : {0.0, std::max(1.0, rounds), rounds + 1}) {
      const Shares shares = shares_beside(problem, options, round * count);
      search.try_shares(shares.resident, shares.streamed, options.window);
    }
  }
  Plan plan = search.take();
  if (plan.gpu_share(problem) == 0) plan.reason = reason_for_all_cpu(problem);
  return plan;
}

}  // namespace dos::sched
