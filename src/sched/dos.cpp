// SPDX-License-Identifier: Apache-2.0
#include "sched/dos.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/error.hpp"
#include "sched/homes.hpp"
#include "sched/interleave.hpp"
#include "sched/policy_registry.hpp"
#include "sched/replay.hpp"
#include "sched/shares.hpp"
#include "sched/step_replay.hpp"

namespace dos::sched {
namespace {

/// What tells a plan from others of the same search.
std::size_t fingerprint(const Plan& plan) {
  std::size_t sum = 0;
  const auto add = [&](Index value) {
    sum = (sum ^ static_cast<std::size_t>(value)) * 0x9e3779b97f4a7c15U;
    sum ^= sum >> 29U;
  };
  for (const auto& [home, device, reader] : plan.assignments) {
    add(home);
    add(device);
    add(reader);
  }
  for (const Index window : plan.window) add(window);
  add(plan.execution.on_the_way);
  return sum;
}

/// Keeps the fastest of the plans that it is shown. Equal ones are played once.
class Search {
 public:
  Search(const Problem& problem, const PolicyOptions& options)
      : problem_(problem), options_(options), homes_(problem) {}

  /// States of these sizes on the GPUs, the largest subgroups as residents, or those in front, or
  /// some spread over all. Returns the fastest plan's time, nothing when they do not fit.
  std::optional<units::Seconds> try_shares(Residents residents, const Shares& shares,
                                           std::optional<Index> window) {
    std::optional<units::Seconds> best;
    const auto take = [&](std::optional<units::Seconds> time) {
      if (time && (!best || *time < *best)) best = time;
    };
    for (const double front : fronts()) {
      if (residents == Residents::kLargest) {
        take(try_residents(place_largest, shares, window, front));
        continue;
      }
      take(try_residents(place_residents, shares, window, front));
      if (shares.mixes()) take(try_residents(spread_residents, shares, window, front));
    }
    return best;
  }

  void try_policy(const Policy& policy) {
    try {
      Plan plan = policy.plan(problem_, options_);
      plan.reason = reason_as(policy.name);
      if (!policy.chooses_homes) homes_.choose(plan);
      consider(std::move(plan));
    } catch (const Error& error) {  // it cannot place this problem and proposes nothing
      obstacle_ = error.what();
    }
  }

  /// What is shown from here on need not be played to its end when it is slower than the best.
  void only_improve(bool on) { only_improves_ = on; }
  /// Whether the plans so far are worse than PolicyOptions::hopeless.
  [[nodiscard]] bool is_hopeless() const {
    return options_.hopeless && (!best_ || best_time_ > *options_.hopeless);
  }
  [[nodiscard]] bool found() const { return best_.has_value(); }
  [[nodiscard]] const std::string& obstacle() const { return obstacle_; }
  [[nodiscard]] Index cpu_updates() const { return std::ssize(best_->cpu_order()); }
  /// Whether the fastest plan has states behind host memory.
  [[nodiscard]] bool needs_tiers() const { return best_ && lives_behind_host(problem_, *best_); }
  /// A plan with homes.
  void try_plan(Plan plan) {
    choose_homes();
    consider(std::move(plan));
  }
  Plan take() {
    choose_homes();
    return std::move(*best_);
  }

 private:
  /// Of the order, parts at the front of which GPUs take what they stream: forward comes to these
  /// before a CPU worker has done its first update.
  [[nodiscard]] std::vector<double> fronts() const {
    units::Seconds forward{0};
    for (const units::Seconds each : problem_.forward) forward += each;
    if (!(forward.value() > 0)) return {0};
    const units::Seconds first =
        units::Params(static_cast<double>(problem_.largest())) / problem_.rates.cpu_worker;
    const double front = std::min(1.0, first / forward);
    if (!only_improves_) return {front};
    return {front, 0, std::min(1.0, 2 * front)};
  }

  template <class Place>
  std::optional<units::Seconds> try_residents(Place&& place, const Shares& shares,
                                              std::optional<Index> window, double front) {
    Plan plan = all_cpu(problem_);
    place(problem_, plan, shares.resident);
    spread_streamed(problem_, plan, shares.streamed, front);
    deal_weights(problem_, plan);
    plan.reason = "shares of the linear programme, rounded to subgroups by replay";
    try {
      set_windows(problem_, plan, window);
      return consider(std::move(plan));
    } catch (const Error& error) {
      obstacle_ = error.what();
      return std::nullopt;
    }
  }

  void choose_homes() {
    if (chosen_ || !best_) return;
    chosen_ = true;
    Plan plan = *best_;
    homes_.choose(plan);
    consider(std::move(plan));
  }

  /// Its time; nothing when it is slower than the best and only_improve() holds.
  std::optional<units::Seconds> consider(Plan plan) {
    plan.execution.half_duplex = options_.half_duplex;
    std::optional<units::Seconds>& time = times_[fingerprint(plan)];
    if (time) return time;
    homes_.place(plan);
    const bool cuts = best_ && only_improves_;
    time =
        planned_end_by(problem_, plan,
                       cuts ? best_time_ : units::Seconds(std::numeric_limits<double>::infinity()));
    // A tie within rounding keeps the earlier plan: the result must not hang on the last bit.
    if (time && (!best_ || time->value() < best_time_.value() * (1 - 1e-9))) {
      best_ = std::move(plan);
      best_time_ = *time;
    }
    return time;
  }

  const Problem& problem_;
  const PolicyOptions& options_;
  Homes homes_;
  std::optional<Plan> best_;
  units::Seconds best_time_{0};
  std::unordered_map<std::size_t, std::optional<units::Seconds>> times_;  ///< by fingerprint
  bool only_improves_ = false;
  bool chosen_ = false;  ///< homes of the best, by replays
  std::string obstacle_;
};

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

/// One direction of search: more or less that is streamed, from `start`.
class Line {
 public:
  Line(const Scope& scope, Search& search, Shares start, std::optional<Index> window)
      : scope_(scope),
        search_(search),
        start_(std::move(start)),
        window_(scope.options.window ? scope.options.window : window),
        streamed_(start_.all_streamed().value()) {}

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
    search_.only_improve(true);
    for (const Index extra :
         to_whole_rounds(search_.cpu_updates(), scope_.problem.rates.cpu_workers))
      time_of(at_ - static_cast<double>(extra) * one_subgroup());
    search_.only_improve(false);
  }

 private:
  std::optional<units::Seconds> time_of(double factor) {
    if (factor < 0) return std::nullopt;
    return search_.try_shares(scope_.residents, scaled(start_, factor), window_);
  }
  [[nodiscard]] double one_subgroup() const { return scope_.streamed().value() / streamed_; }

  const Scope& scope_;
  Search& search_;
  Shares start_;
  std::optional<Index> window_;
  double streamed_;
  double at_ = 1;
};

/// The shares of the linear programme, what is near them on the line, and wider windows; beside
/// forward, whose tasks have a wide one hidden already, a narrower one.
void search_near(const Scope& scope, Search& search, const Shares& start) {
  Line line(scope, search, start, {});
  line.descend();
  // Where states come from tiers behind host memory, those bound the step: neither whole rounds nor
  // windows do.
  if (search.needs_tiers() || search.is_hopeless()) return;
  line.round();
  if (scope.options.window || start.all_streamed().value() <= 0) return;
  // Working parameters and gradients come between states: more copies ahead bridge that, with as
  // much memory for residents less.
  const Shares near = scaled(start, line.at());
  const Index useful = useful_window(scope.problem, 0, scope.size);
  std::set<Index> windows{2 * useful, 4 * useful};
  if (!scope.problem.forward.empty()) windows = {least_window(scope.problem, 0, scope.size)};
  for (const Index window : windows) {
    for (const Shares& shares : {near, with_window(scope, near, window)}) {
      Line wider(scope, search, shares, window);
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

/// As if host memory held all states.
Problem all_in_host(const Problem& problem) {
  Problem result = with_tiers(problem, {});
  result.host_memory = units::Bytes(std::numeric_limits<double>::infinity());
  result.slots.reset();
  return result;
}

void search_all(const Scope& scope, Search& search) {
  const Problem& problem = scope.problem;
  const PolicyOptions& options = scope.options;
  for (const bool busy : {false, true}) {
    if (busy && !slows_links(problem.rates)) break;
    const BoundOptions forecast{.busy_links = busy,
                                .half_duplex = options.half_duplex,
                                .residents = options.residents,
                                .deals_evenly = true};
    search_near(scope, search, shares_of(scope, lower_bound(problem, forecast)));
    // Where tiers behind host memory bind, many shares are as good to the programme: of these, what
    // leaves most of each device to spare.
    if (search.needs_tiers())
      search_near(scope, search, shares_of(scope, lower_bound(all_in_host(problem), forecast)));
  }
  const units::Params round = scope.streamed() * static_cast<double>(problem.rates.cpu_workers);
  const units::Params wanted =
      lower_bound(problem, {.half_duplex = options.half_duplex, .residents = options.residents})
          .cpu;
  const double rounds = std::floor(wanted / round);
  for (const double count : {0.0, std::max(1.0, rounds), rounds + 1})
    search.try_shares(scope.residents, shares_beside(scope, round * count), options.window);
}

/// What is planned with a part of the tiers behind host memory.
void try_with_tiers(const Problem& problem, const PolicyOptions& options,
                    const std::vector<Index>& kept, Search& search) {
  try {
    Plan plan = plan_dos(with_tiers(problem, kept), options);
    for (Assignment& each : plan.assignments)
      if (problem.only_keeps(each.home))
        each.home = kept[static_cast<std::size_t>(each.home - problem.gpus())];
    search.try_plan(std::move(plan));
  } catch (const Error&) {
    // The others do not hold the states.
  }
}

/// Tiers may be in each other's way: without the slowest, or each alone.
void try_fewer_tiers(const Problem& problem, const PolicyOptions& options, Search& search) {
  const std::vector<Index> fastest = fastest_tiers(problem);
  if (fastest.size() < 2 || !search.needs_tiers()) return;
  if (fastest.size() > 2) {
    std::vector<Index> kept(fastest.begin(), fastest.end() - 1);
    std::ranges::sort(kept);
    try_with_tiers(problem, options, kept, search);
  }
  for (const Index tier : fastest) try_with_tiers(problem, options, {tier}, search);
}

/// The GPU share that the user asked for: residents first, the rest streamed.
Plan fixed_share(const Problem& problem, const PolicyOptions& options, double share) {
  expect(problem.gpus() > 0 || share == 0, "sched.share = {:g} needs a GPU, this machine has none",
         share);
  const double part = share / std::max(1.0, static_cast<double>(problem.gpus()));
  Bound bound = lower_bound(problem, {.residents = options.residents, .deals_evenly = true});
  bound.streamed.assign(problem.rates.gpus.size(), problem.total() * part);
  bound.resident = bound.streamed;
  const Scope scope = whole_scope(problem, options);
  Shares shares = shares_of(scope, bound);
  for (std::size_t g = 0; g < shares.resident.size(); ++g) {
    shares.resident[g] = std::min(shares.resident[g], bound.streamed[g] * problem.cost.held());
    shares.streamed[g] -= shares.resident[g] / problem.cost.held();
  }
  Search search(problem, options);
  search.try_shares(scope.residents, shares, options.window);
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
    search_all(whole_scope(problem, options), search);
    const Scope scope = scope_by_size(problem, options);
    if (scope.residents == Residents::kLargest) search_all(scope, search);
  }
  try_fewer_tiers(problem, options, search);
  expect(search.found(), "{}", search.obstacle());
  Plan plan = search.take();
  if (plan.gpu_share(problem) == 0) plan.reason = reason_for_all_cpu(problem);
  return plan;
}

}  // namespace dos::sched
