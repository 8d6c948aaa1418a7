// SPDX-License-Identifier: Apache-2.0
#include "sched/bound.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "sched/linear_program.hpp"

namespace dos::sched {
namespace {

/// Variables: T, the CPU share by the GPU that has its gradients and working parameters, then
/// (streamed, resident) a GPU, all divided by their size on the CPU alone: the programme's numbers
/// are near 1 whatever the machine.
class Builder {
 public:
  Builder(const Problem& problem, const BoundOptions& options)
      : problem_(problem), options_(options), total_(problem.total().value()) {
    const double alone = total_ / cpu_rate();
    time_scale_ = alone;
    program_.objective.assign(variables(), 0.0);
    program_.objective[0] = 1;
    add_shares();
    add_cpu();
    for (Index g = 0; g < problem.gpus(); ++g) add_gpu(g);
    add_dram();
  }

  [[nodiscard]] Bound solve_it() const {
    const LinearSolution solution = solve(program_);
    require(solution.feasible, "all on the CPU is a solution");
    Bound bound;
    bound.time = units::Seconds(solution.x[0] * time_scale_);
    for (std::size_t v = 1; v < streamed(0); ++v)
      bound.cpu += units::Params(solution.x[v] * total_);
    for (Index g = 0; g < problem_.gpus(); ++g) {
      bound.streamed.emplace_back(solution.x[streamed(g)] * total_);
      bound.resident.emplace_back(solution.x[streamed(g) + 1] * total_);
    }
    fill_resources(solution, bound);
    return bound;
  }

 private:
  [[nodiscard]] std::size_t variables() const { return streamed(problem_.gpus()); }
  /// Whether the CPU share is divided by GPU.
  [[nodiscard]] bool is_dealt() const { return problem_.gpus() > 1 && !options_.deals_evenly; }
  /// The place of a GPU's variables; what comes before the first is T and the CPU share.
  [[nodiscard]] std::size_t streamed(Index gpu) const {
    return static_cast<std::size_t>(1 + (is_dealt() ? problem_.gpus() : 1) + 2 * gpu);
  }
  /// `work` a parameter of the CPU share, whatever GPU has its gradients.
  [[nodiscard]] std::vector<double> cpu_row(double work) const {
    std::vector<double> row(variables(), 0.0);
    std::fill_n(row.begin() + 1, streamed(0) - 1, work);
    return row;
  }
  [[nodiscard]] double cpu_rate() const {
    const perfmodels::Rates& rates = problem_.rates;
    return std::min(rates.cpu_update.value(),
                    rates.cpu_worker.value() * static_cast<double>(rates.cpu_workers));
  }

  [[nodiscard]] double smallest_state() const {
    Index least = problem_.largest();
    for (const Subgroup& subgroup : problem_.subgroups) least = std::min(least, subgroup.params);
    return static_cast<double>(least) * problem_.cost.held().value();
  }

  /// "work . x <= rate * T"; work in units a parameter, rate in units a second.
  void add_rate(const std::string& name, std::vector<double> work, double rate) {
    // Divided by the rate, work is in seconds a parameter; scaled to the whole model and T.
    for (double& each : work) each *= total_ / (rate * time_scale_);
    work[0] = -1;
    program_.constraints.push_back({work, 0, false});
    names_.push_back(name);
  }

  void add_shares() {
    std::vector<double> row(variables(), 1.0);
    row[0] = 0;
    program_.constraints.push_back({row, 1, true});
    names_.emplace_back("shares");
  }

  void add_cpu() { add_rate("cpu", cpu_row(1), cpu_rate()); }

  void add_gpu(Index gpu) {
    const perfmodels::GpuRates& rates = problem_.rates.gpus[static_cast<std::size_t>(gpu)];
    const UpdateCost& cost = problem_.cost;
    const std::size_t s = streamed(gpu);
    const double part = is_dealt() ? 1 : 1.0 / static_cast<double>(problem_.gpus());
    const std::string name = fmt::format("gpu {} ", gpu);
    const auto row = [&](double cpu, double stream, double resident) {
      std::vector<double> work(variables(), 0.0);
      work[is_dealt() ? static_cast<std::size_t>(1 + gpu) : 1] = cpu * part;
      work[s] = stream;
      work[s + 1] = resident;
      return work;
    };
    const bool busy = options_.busy_links;
    const double h2d = (busy ? rates.h2d_cpu_busy : rates.h2d).value();
    const double d2h = (busy ? rates.d2h_cpu_busy : rates.d2h).value();
    const double both = (busy ? rates.both_cpu_busy : rates.both).value();
    const double in = cost.weight.value();
    const double out = cost.gradient.value();
    const double streamed_in = cost.streamed_in().value();
    const double streamed_out = cost.streamed_out().value();
    const double held = cost.held().value();
    const double resident_in = cost.host_gradient.value();
    const double resident_out = cost.host_parameter.value();
    add_rate(name + "update", row(0, 1, 1), rates.update.value());
    add_rate(name + "h2d", row(in, streamed_in, resident_in), h2d);
    add_rate(name + "d2h", row(out, streamed_out, resident_out), d2h);
    add_rate(name + "link", row(in + out, streamed_in + streamed_out, resident_in + resident_out),
             both);
    if (options_.half_duplex)  // in seconds a parameter: states in and out take turns
      add_rate(name + "half duplex", row(0, streamed_in / h2d + streamed_out / d2h, 0), 1);
    const StateMemory& memory = problem_.memory[static_cast<std::size_t>(gpu)];
    const double room =
        options_.residents ? std::min(memory.update, memory.resident).value() / held : 0;
    program_.constraints.push_back({row(0, 0, 1), room / total_, false});
    names_.push_back(name + "memory");
    // A GPU without room for the smallest subgroup cannot stream anything.
    if (memory.update.value() < smallest_state()) {
      program_.constraints.push_back({row(0, 1, 0), 0, false});
      names_.push_back(name + "window");
    }
  }

  void add_dram() {
    const UpdateCost& cost = problem_.cost;
    const double copies = problem_.gpus() == 0 ? 0 : cost.weight.value() + cost.gradient.value();
    std::vector<double> work = cpu_row(cost.cpu_traffic.value() + copies);
    for (Index g = 0; g < problem_.gpus(); ++g) {
      work[streamed(g)] = (cost.streamed_in() + cost.streamed_out()).value();
      work[streamed(g) + 1] = (cost.host_gradient + cost.host_parameter).value();
    }
    add_rate("dram", work, problem_.rates.dram.value());
  }

  void fill_resources(const LinearSolution& solution, Bound& bound) const {
    double heaviest = -1;
    for (std::size_t r = 1; r < names_.size(); ++r) {
      const Constraint& constraint = program_.constraints[r];
      double used = 0;
      for (std::size_t v = 1; v < variables(); ++v)
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
  LinearProgram program_;
  std::vector<std::string> names_;
};

}  // namespace

Bound lower_bound(const Problem& problem, const BoundOptions& options) {
  problem.validate();
  return Builder(problem, options).solve_it();
}

}  // namespace dos::sched
