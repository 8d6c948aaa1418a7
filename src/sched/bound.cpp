// SPDX-License-Identifier: Apache-2.0
#include "sched/bound.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "sched/assignment.hpp"
#include "sched/linear_program.hpp"

namespace dos::sched {

units::ParamsPerSecond cpu_rate(const perfmodels::Rates& rates) {
  return std::min(rates.cpu_update, rates.cpu_worker * static_cast<double>(rates.cpu_workers));
}

namespace {

/// Parameters that live in one tier and are updated by one device: a variable of the programme.
struct Way {
  Index home;
  Index device;
  std::vector<LinkTraffic> traffic{};  ///< of a parameter
  double dealt = 1;  ///< the part of it that goes over the link of each of the CPU's readers
  double dram = 0;   ///< bytes of a parameter

  [[nodiscard]] bool is_on_cpu() const { return device == kCpu; }
  /// States go over the link of a tier.
  [[nodiscard]] bool streams_over(Index tier) const { return (home == tier) != (device == tier); }
};

/// The CPU's gradients and working parameters are dealt to `readers` evenly.
Way way_of(const Problem& problem, Index home, Index device, const std::vector<Index>& readers) {
  Way way{.home = home, .device = device};
  way.dealt = 1 / static_cast<double>(readers.size());
  for (const Index reader : readers)
    for (const LinkTraffic& each : traffic_of(problem.cost, {home, device, reader})) {
      if (reader == readers.front()) way.dram += (each.in + each.out).value();
      if (std::ranges::find(way.traffic, each.tier, &LinkTraffic::tier) == way.traffic.end())
        way.traffic.push_back(each);
    }
  if (device == kCpu) way.dram += problem.cost.cpu_traffic.value();
  return way;
}

/// Variables: T, then the parameters that go each way, divided by their size on the CPU alone: the
/// programme's numbers are near 1 whatever the machine.
class Builder {
 public:
  Builder(const Problem& problem, const BoundOptions& options)
      : problem_(problem), options_(options), total_(problem.total().value()) {
    const double alone = total_ / cpu_rate(problem_.rates).value();
    time_scale_ = alone;
    list_ways();
    program_.objective.assign(ways_.size() + 1, 0.0);
    program_.objective[0] = 1;
    add_limit(
        "shares", total_, [](const Way&) { return true; }, /*equality=*/true);
    add_rate("cpu", cpu_rate(problem_.rates).value(),
             [](const Way& way) { return way.is_on_cpu() ? 1.0 : 0.0; });
    for (Index g = 0; g < problem.gpus(); ++g) add_gpu(g);
    for (Index tier = problem.gpus(); tier < problem.tiers(); ++tier) add_link(tier);
    add_capacities();
    add_rate("dram", problem.rates.dram.value(), [](const Way& way) { return way.dram; });
  }

  [[nodiscard]] Bound solve_it() const {
    const LinearSolution solution = solve(program_);
    expect_fits(solution);
    Bound bound;
    bound.time = units::Seconds(solution.x[0] * time_scale_);
    bound.streamed.resize(problem_.rates.gpus.size());
    bound.resident = bound.streamed;
    for (std::size_t w = 0; w < ways_.size(); ++w) {
      const auto& [home, device, traffic, dealt, dram] = ways_[w];
      const units::Params params(solution.x[w + 1] * total_);
      if (bound.parts.empty() || bound.parts.back().home != home ||
          bound.parts.back().device != device)
        bound.parts.push_back({home, device});
      bound.parts.back().params += params;
      if (device == kCpu)
        bound.cpu += params;
      else
        (home == device ? bound.resident : bound.streamed)[at(device)] += params;
    }
    fill_resources(solution, bound);
    return bound;
  }

 private:
  static std::size_t at(Index index) { return static_cast<std::size_t>(index); }

  void list_ways() {
    std::vector<Index> gpus(problem_.rates.gpus.size());
    std::iota(gpus.begin(), gpus.end(), Index{0});
    const auto add = [&](Index home, Index device, const std::vector<Index>& readers) {
      ways_.push_back(way_of(problem_, home, device, readers));
    };
    const auto add_cpu = [&](Index home) {
      if (gpus.empty()) return add(home, kCpu, {-1});
      if (options_.deals_evenly) return add(home, kCpu, gpus);
      for (const Index gpu : gpus) add(home, kCpu, {gpu});
    };
    add_cpu(kHost);
    for (const Index gpu : gpus)
      for (const Index home : {kHost, gpu}) add(home, gpu, {-1});
    for (Index tier = problem_.gpus(); tier < problem_.tiers(); ++tier) {
      add_cpu(tier);
      for (const Index gpu : gpus) add(tier, gpu, {-1});
    }
  }

  [[nodiscard]] double smallest() const {
    Index least = problem_.largest();
    for (const Subgroup& subgroup : problem_.subgroups) least = std::min(least, subgroup.params);
    return static_cast<double>(least);
  }

  /// "work . x <= rate * T"; work in units a parameter, rate in units a second.
  template <class Work>
  void add_rate(const std::string& name, double rate, Work&& work) {
    // Divided by the rate, work is in seconds a parameter; scaled to the whole model and T.
    std::vector<double> row{-1};
    for (const Way& way : ways_) row.push_back(work(way) * (total_ / (rate * time_scale_)));
    program_.constraints.push_back({row, 0, false});
    names_.push_back(name);
  }

  /// At most `params` parameters of those ways.
  template <class Is>
  void add_limit(const std::string& name, double params, Is&& is, bool equality = false) {
    std::vector<double> row{0};
    for (const Way& way : ways_) row.push_back(is(way) ? 1.0 : 0.0);
    program_.constraints.push_back({row, params / total_, equality});
    names_.push_back(name);
  }

  /// What `of` makes of the bytes in and out of each way over the link of a tier.
  template <class Of>
  void add_traffic(const std::string& name, Index tier, double rate, Of&& of) {
    add_rate(name, rate, [&](const Way& way) {
      const auto found = std::ranges::find(way.traffic, tier, &LinkTraffic::tier);
      if (found == way.traffic.end()) return 0.0;
      const double work = of(way, found->in.value(), found->out.value());
      return way.is_on_cpu() && problem_.is_gpu(tier) ? work * way.dealt : work;
    });
  }

  void add_link(Index tier) {
    const perfmodels::LinkRates link = problem_.link_of(tier);
    const bool busy = options_.busy_links;
    const double in = (busy ? link.in_cpu_busy : link.in).value();
    const double out = (busy ? link.out_cpu_busy : link.out).value();
    const double both = (busy ? link.both_cpu_busy : link.both).value();
    const std::string name = problem_.name_of_tier(tier);
    using Of = const Way&;
    add_traffic(problem_.name_of_way(tier, true), tier, in, [](Of, double i, double) { return i; });
    add_traffic(problem_.name_of_way(tier, false), tier, out,
                [](Of, double, double o) { return o; });
    add_traffic(name + " link", tier, both, [](Of, double i, double o) { return i + o; });
    if (options_.half_duplex || link.half_duplex)  // in seconds: states in and out take turns
      add_traffic(name + " half duplex", tier, 1, [&](const Way& way, double i, double o) {
        return way.streams_over(tier) ? i / in + o / out : 0.0;
      });
  }

  void add_gpu(Index gpu) {
    const std::string name = problem_.name_of_tier(gpu);
    const double rate = problem_.rates.gpus[at(gpu)].update.value();
    // What is computed besides is in every parameter's part, as these parts add up to 1.
    const double besides = options_.passes.value() * rate / total_;
    add_rate(name + (besides > 0 ? " compute" : " update"), rate,
             [&](const Way& way) { return (way.device == gpu ? 1.0 : 0.0) + besides; });
    add_link(gpu);
    const StateMemory& memory = problem_.memory[at(gpu)];
    const double held = problem_.cost.held().value();
    add_home_limit(
        gpu, options_.residents ? std::min(memory.update, memory.resident).value() / held : 0);
    // A GPU without room for the smallest subgroup cannot stream anything.
    if (memory.update.value() < smallest() * held)
      add_limit(name + " window", 0,
                [&](const Way& way) { return way.device == gpu && way.home != gpu; });
  }

  void add_capacities() {
    const double state = problem_.cost.away().value();
    for (Index tier = problem_.gpus(); tier < problem_.tiers(); ++tier)
      add_home_limit(tier, problem_.capacity_of(tier).value() / state);
    const double host = problem_.host_memory.value() / state;
    if (!std::isfinite(host)) return;
    add_home_limit(kHost, host);
    // What lives behind host memory goes through it.
    if (host < smallest())
      add_limit("host window", 0, [&](const Way& way) { return problem_.only_keeps(way.home); });
  }

  void add_home_limit(Index tier, double params) {
    add_limit(problem_.name_of_tier(tier) + " memory", params,
              [&](const Way& way) { return way.home == tier; });
  }

  void expect_fits(const LinearSolution& solution) const {
    if (solution.feasible) return;
    std::string tiers;
    units::Bytes gpus{0};
    for (const StateMemory& gpu : problem_.memory) gpus += std::min(gpu.update, gpu.resident);
    for (Index tier = problem_.gpus(); tier < problem_.tiers(); ++tier)
      tiers += fmt::format(", {} {:.4g} GB", problem_.name_of_tier(tier),
                           problem_.capacity_of(tier).value() / 1e9);
    const bool lacks_window =
        problem_.tiers() > problem_.gpus() &&
        problem_.host_memory.value() < smallest() * problem_.cost.away().value();
    fail(
        "states of {:.4g} GB fit nowhere: host memory has {:.4g} GB for them, GPUs {:.4g} GB{}: {}",
        total_ * problem_.cost.away().value() / 1e9, problem_.host_memory.value() / 1e9,
        gpus.value() / 1e9, tiers,
        lacks_window ? "what lives on disks goes through host memory, which has no room for one "
                       "subgroup: raise train.host_memory, or use more ranks or a smaller model"
                     : "use more ranks, a smaller model, or a machine file with a [[tier]] for the "
                       "rest");
  }

  void fill_resources(const LinearSolution& solution, Bound& bound) const {
    double heaviest = -1;
    for (std::size_t r = 1; r < names_.size(); ++r) {
      const Constraint& constraint = program_.constraints[r];
      double used = 0;
      for (std::size_t v = 1; v <= ways_.size(); ++v)
        used += constraint.coefficients[v] * solution.x[v];
      const bool is_rate = constraint.coefficients[0] < 0;
      const double limit = is_rate ? solution.x[0] : constraint.limit;
      const double utilisation = limit > 0 ? used / limit : 1;
      // Growing a rate or a limit by a fraction relaxes its row by that fraction of what is used.
      const double weight = solution.sensitivity[r] * limit / solution.x[0];
      bound.resources.push_back({names_[r], utilisation, weight});
      if (weight > heaviest * (1 + 1e-9) + 1e-12) {
        heaviest = weight;
        bound.binding = names_[r];
      }
    }
  }

  const Problem& problem_;
  BoundOptions options_;
  double total_;
  double time_scale_ = 1;
  std::vector<Way> ways_;
  LinearProgram program_;
  std::vector<std::string> names_;
};

}  // namespace

Bound lower_bound(const Problem& problem, const BoundOptions& options) {
  problem.validate();
  return Builder(problem, options).solve_it();
}

}  // namespace dos::sched
