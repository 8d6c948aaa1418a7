// SPDX-License-Identifier: Apache-2.0
#include "sched/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "sched/interleave.hpp"

namespace dos::sched {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// DRAM traffic of the separate pass: reads FP32, writes 16 bit.
constexpr double kDowncastTraffic = 6;

std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

Simulation::Simulation(const Problem& problem, const Plan& plan, bool record)
    : problem_(problem), plan_(plan), record_(record), cpu_order_(plan.cpu_order()) {
  require(plan.assignments.size() == problem.subgroups.size(), "the plan is of this problem");
  require(!plan.execution.lockstep || problem.gpus() <= 1, "lockstep drives one GPU");
  require(plan.execution.downcast == Downcast::kFused || problem.rates.published.has_value(),
          "a separate downcast has a rate");
  const auto count = static_cast<Index>(problem.gpus());
  for (Index g = 0; g < count; ++g) {
    Gpu gpu;
    gpu.order = plan.gpu_order(g);
    gpu.most_arriving = arrivals_at_once(problem, g);
    for (const Index subgroup : gpu.order)
      if (plan.assignments[at(subgroup)].placement == Placement::kResident)
        gpu.resident_bytes += problem.held_bytes(subgroup).value();
    gpus_.push_back(std::move(gpu));
  }
  const units::Seconds zero{0};
  result_.kernel_busy.assign(gpus_.size(), zero);
  result_.h2d_busy = result_.d2h_busy = result_.kernel_busy;
  result_.h2d_bytes.assign(gpus_.size(), units::Bytes{0});
  result_.d2h_bytes = result_.memory_peak = result_.h2d_bytes;
  result_.memory.resize(gpus_.size());
  for (Index g = 0; g < count; ++g) change_memory(g, 0);
  const Index crew = plan.execution.cpu_team ? 1 : problem.rates.cpu_workers;
  workers_.resize(at(crew));
  for (Index w = crew - 1; w >= 0; --w) idle_workers_.push_back(w);
  const bool flush = problem.cost.gradient.value() > 0 && count > 0;
  gradient_here_.assign(problem.subgroups.size(), !flush);
  if (!flush) gradients_requested_ = cpu_order_.size();
  gradients_ahead_ = at(gradients_ahead(problem, std::ssize(workers_)));
  on_gpu_since_.assign(problem.subgroups.size(), 0);
  unfinished_ = static_cast<Index>(problem.subgroups.size());
  for (const Subgroup& subgroup : problem.subgroups)
    first_depth_left_ += subgroup.depth == problem.subgroups.front().depth ? 1 : 0;
  send_departing_home();
}

/// States that a GPU has and does not keep leave it first; what is streamed there is there already.
void Simulation::send_departing_home() {
  departs_.assign(problem_.subgroups.size(), false);
  for (std::size_t i = 0; i < problem_.homes.size(); ++i) {
    const Index home = problem_.homes[i];
    const bool stays =
        plan_.assignments[i].gpu == home && plan_.assignments[i].placement != Placement::kCpu;
    if (home < 0 || stays) continue;
    departs_[i] = true;
    gpus_[at(home)].departing.push_back(static_cast<Index>(i));
  }
}

Replay Simulation::run() {
  start_everything();
  while (unfinished_ > 0) {
    set_rates();
    const double step = next_event();
    require(std::isfinite(step), "the replay goes on");
    advance(step);
    finish_due(step);
    start_everything();
  }
  result_.makespan = units::Seconds(now_);
  result_.update_end = units::Seconds(plan_.execution.joins_copies ? now_ : host_end_);
  return std::move(result_);
}

void Simulation::start_everything() {
  request_gradients();
  for (Index g = 0; g < static_cast<Index>(gpus_.size()); ++g) start_gpu(g);
  start_cpu();
  start_downcast();
}

void Simulation::start(Lane& lane, Work work, Index subgroup, double amount, double latency) {
  lane = {.busy = true,
          .work = work,
          .subgroup = subgroup,
          .begin = now_,
          .flows_from = now_ + latency,
          .left = amount,
          .rate = 0};
}

/// Gradients are asked for in the order of the CPU, so far ahead of it that it does not run dry
/// while states occupy the link.
void Simulation::request_gradients() {
  const std::size_t running = workers_.size() - idle_workers_.size();
  const std::size_t until = std::min(cpu_next_ - running + gradients_ahead_, cpu_order_.size());
  for (; gradients_requested_ < until; ++gradients_requested_) {
    const Index subgroup = cpu_order_[gradients_requested_];
    gpus_[at(gpu_of(subgroup))].gradients.push_back(subgroup);
  }
}

void Simulation::start_gpu(Index g) {
  Gpu& gpu = gpus_[at(g)];
  const double latency = problem_.rates.transfer_latency.value();
  if (!gpu.kernel.busy && gpu.next_kernel < gpu.order.size()) {
    const Index subgroup = gpu.order[gpu.next_kernel];
    const bool here =
        static_cast<Index>(gpu.next_kernel) < gpu.arrived || resident_needs_nothing(subgroup);
    if (here && kernel_may_start(subgroup)) {
      // The host reaches the GPU's turn: what the CPU has finished goes to the downcast thread.
      to_downcast_.insert(to_downcast_.end(), not_submitted_.begin(), not_submitted_.end());
      not_submitted_.clear();
      start(gpu.kernel, Work::kGpuUpdate, subgroup, params(subgroup), launch_left(gpu, subgroup));
      ++gpu.next_kernel;
    }
  }
  const bool state_comes_in = gpu.in.busy && gpu.in.work == Work::kStateIn;
  const bool may_go_out = !plan_.execution.half_duplex || !state_comes_in;
  if (!gpu.out.busy && !gpu.gradients.empty()) {
    const Index subgroup = gpu.gradients.front();
    gpu.gradients.pop_front();
    start(gpu.out, Work::kGradientOut, subgroup, params(subgroup) * problem_.cost.gradient.value(),
          latency);
  } else if (!gpu.out.busy && !gpu.departing.empty() && may_go_out) {
    const Index subgroup = gpu.departing.front();
    gpu.departing.pop_front();
    start(gpu.out, Work::kStateOut, subgroup, params(subgroup) * problem_.cost.state.value(),
          state_latency());
  } else if (!gpu.out.busy && !gpu.states.empty() && may_go_out) {
    const Index subgroup = gpu.states.front();
    gpu.states.pop_front();
    const bool stays = is_resident(subgroup);
    const UpdateCost& cost = problem_.cost;
    start(gpu.out, stays ? Work::kParameterOut : Work::kStateOut, subgroup,
          params(subgroup) * (stays ? cost.host_parameter : cost.streamed_out()).value(),
          stays ? latency : state_latency());
  }
  // Working parameters are small and the next forward waits for them; states have their window.
  if (!gpu.in.busy && !gpu.weights.empty()) {
    const Index subgroup = gpu.weights.front();
    gpu.weights.pop_front();
    start(gpu.in, Work::kWeightIn, subgroup, params(subgroup) * problem_.cost.weight.value(),
          latency);
  }
  if (!gpu.in.busy) start_state_in(g);
}

/// A kernel is launched while the one before runs, once its states are there; in lockstep only when
/// the host comes to it.
double Simulation::launch_left(const Gpu& gpu, Index subgroup) const {
  const double latency = problem_.rates.task_latency.value();
  if (plan_.execution.lockstep) return latency;
  const double since = std::max(on_gpu_since_[at(subgroup)], gpu.kernel.flows_from);
  return std::max(0.0, since + latency - now_);
}

void Simulation::start_state_in(Index g) {
  Gpu& gpu = gpus_[at(g)];
  while (gpu.next_in < gpu.order.size() && resident_needs_nothing(gpu.order[gpu.next_in])) {
    ++gpu.next_in;
    // States arrive in order, so residents count as soon as those before them are there.
    if (gpu.arrived == static_cast<Index>(gpu.next_in) - 1) ++gpu.arrived;
  }
  if (gpu.next_in == gpu.order.size()) return;
  const bool goes_out = gpu.out.busy && gpu.out.work == Work::kStateOut;
  if (plan_.execution.half_duplex && goes_out) return;
  const Index subgroup = gpu.order[gpu.next_in];
  if (departs_[at(subgroup)]) return;
  const double latency = problem_.rates.transfer_latency.value();
  if (is_resident(subgroup) && !arrives(subgroup)) {
    ++gpu.next_in;
    start(gpu.in, Work::kGradientIn, subgroup,
          params(subgroup) * problem_.cost.host_gradient.value(), latency);
    return;
  }
  if (arrives(subgroup)) {
    if (gpu.arriving >= gpu.most_arriving) return;
    ++gpu.next_in;
    ++gpu.arriving;
    const double bytes = params(subgroup) * problem_.cost.streamed_in().value();
    const double allocations =
        problem_.rates.allocation.value() *
            static_cast<double>(problem_.cost.state_buffers * problem_.gpus()) -
        bytes / problem_.rates.gpus[at(g)].h2d.value();
    start(gpu.in, Work::kStateIn, subgroup, bytes, std::max(state_latency(), allocations));
    return;
  }
  if (gpu.slots >= plan_.window[at(g)] || !fits(gpu, g, subgroup)) return;
  ++gpu.next_in;
  ++gpu.slots;
  change_memory(g, problem_.held_bytes(subgroup).value());
  const bool is_here = home_of(subgroup) == g;
  start(gpu.in, Work::kStateIn, subgroup,
        is_here ? 0 : params(subgroup) * problem_.cost.streamed_in().value(),
        is_here ? 0 : state_latency());
}

bool Simulation::fits(const Gpu& gpu, Index g, Index subgroup) const {
  // Sums of whole subgroups' bytes may round.
  const double room = plan_.window_memory[at(g)].value() * (1 + 1e-12);
  return gpu.window_bytes + problem_.held_bytes(subgroup).value() <= room;
}

/// In lockstep the host waits for the states of every GPU subgroup that it has passed.
bool Simulation::cpu_may_start(Index subgroup) const {
  if (!gradient_here_[at(subgroup)] || departs_[at(subgroup)]) return false;
  if (!plan_.execution.lockstep || gpus_.empty()) return true;
  const Gpu& gpu = gpus_.front();
  return at(gpu.arrived) == gpu.order.size() || gpu.order[at(gpu.arrived)] > subgroup;
}

/// In lockstep the host comes to a GPU subgroup when the CPU subgroups before it are done.
bool Simulation::kernel_may_start(Index subgroup) const {
  if (!plan_.execution.lockstep) return true;
  return cpu_done_ == cpu_order_.size() || cpu_order_[cpu_done_] > subgroup;
}

void Simulation::start_cpu() {
  while (!idle_workers_.empty() && cpu_next_ < cpu_order_.size()) {
    const Index subgroup = cpu_order_[cpu_next_];
    if (!cpu_may_start(subgroup)) return;
    const Index worker = idle_workers_.back();
    idle_workers_.pop_back();
    workers_[at(worker)] = {.subgroup = subgroup, .begin = now_, .waits_for_copy = false};
    updates_.waiting.push({now_ + problem_.rates.task_latency.value(), worker});
    ++cpu_next_;
    request_gradients();
  }
}

void Simulation::start_downcast() {
  if (downcast_lane_.busy || to_downcast_.empty()) return;
  const Index subgroup = to_downcast_.front();
  to_downcast_.pop_front();
  start(downcast_lane_, Work::kDowncast, subgroup, params(subgroup), 0);
}

void Simulation::limit_link(const perfmodels::GpuRates& rates, Gpu& gpu, bool cpu_busy) {
  const double dram_in = 1;  // a copied byte is one byte of DRAM
  const bool in = flowing(gpu.in);
  const bool out = flowing(gpu.out);
  const double in_rate = rates.h2d.value();
  const double out_rate = rates.d2h.value();
  const double sum = in_rate + out_rate;
  const double narrowed = in && out ? std::min(1.0, rates.both.value() / sum) : 1;
  const double busy_in = cpu_busy ? rates.h2d_cpu_busy.value() : in_rate;
  const double busy_out = cpu_busy ? rates.d2h_cpu_busy.value() : out_rate;
  const double busy_both = (cpu_busy ? rates.both_cpu_busy : rates.both).value();
  const double busy_narrowed = in && out ? std::min(1.0, busy_both / (busy_in + busy_out)) : 1;
  const auto flow = [&](double rate, double busy) {
    return Flow{rate * narrowed, dram_in, std::min(rate * narrowed, busy * busy_narrowed)};
  };
  if (in) flows_.push_back(flow(in_rate, busy_in));
  if (out) flows_.push_back(flow(out_rate, busy_out));
}

void Simulation::set_rates() {
  const perfmodels::Rates& rates = problem_.rates;
  flows_.clear();
  const double updating = updates_.count();
  const double downcasting = downcasts_.count();
  const double worker_rate =
      plan_.execution.cpu_team ? rates.cpu_update.value() : rates.cpu_worker.value();
  const auto add_crew = [&](double members, double each, double bytes) {
    flows_.push_back({members * each, bytes, members * each});
  };
  if (updating > 0)
    add_crew(updating, std::min(worker_rate, rates.cpu_update.value() / updating),
             problem_.cost.cpu_traffic.value());
  const double downcast = rates.published ? rates.published->downcast.value() : 0;
  if (downcasting > 0) add_crew(downcasting, downcast / downcasting, kDowncastTraffic);
  for (std::size_t g = 0; g < gpus_.size(); ++g) limit_link(rates.gpus[g], gpus_[g], updating > 0);
  if (flowing(downcast_lane_))
    flows_.push_back({.rate = downcast,
                      .bytes = kDowncastTraffic,
                      .limit = downcast,
                      .yields = true,
                      .least = rates.dram.value() / static_cast<double>(rates.cpu_workers + 1)});
  share_dram(flows_, rates.dram.value());

  std::size_t next = 0;
  if (updating > 0) updates_.rate = flows_[next++].rate / updating;
  if (downcasting > 0) downcasts_.rate = flows_[next++].rate / downcasting;
  if (flowing(downcast_lane_)) downcast_lane_.rate = flows_.back().rate;
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    Gpu& gpu = gpus_[g];
    if (flowing(gpu.in)) gpu.in.rate = flows_[next++].rate;
    if (flowing(gpu.out)) gpu.out.rate = flows_[next++].rate;
    const bool published = plan_.execution.published_kernels && rates.published;
    gpu.kernel.rate = (published ? rates.published->gpu_update : rates.gpus[g].update).value();
  }
}

double Simulation::next_event() const {
  double step = kNever;
  const auto lane = [&](const Lane& each) {
    if (each.busy)
      step = std::min(step, flowing(each) ? each.left / each.rate : each.flows_from - now_);
  };
  for (const Gpu& gpu : gpus_) {
    lane(gpu.in);
    lane(gpu.out);
    lane(gpu.kernel);
  }
  lane(downcast_lane_);
  for (const Crew* crew : {&updates_, &downcasts_}) {
    if (!crew->active.empty())
      step = std::min(step, (crew->active.top().key - crew->progress) / crew->rate);
    if (!crew->waiting.empty()) step = std::min(step, crew->waiting.top().key - now_);
  }
  return std::max(step, 0.0);
}

}  // namespace dos::sched
