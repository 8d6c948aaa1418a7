// SPDX-License-Identifier: Apache-2.0
#include "sched/simulation.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "sched/interleave.hpp"

namespace dos::sched {
namespace {

/// DRAM traffic of the separate pass: reads FP32, writes 16 bit.
constexpr double kDowncastTraffic = 6;

std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

Simulation::Simulation(const Problem& problem, const Plan& plan, bool record,
                       const StepPasses* passes)
    : problem_(problem),
      plan_(plan),
      record_(record),
      passes_(passes),
      cpu_order_(plan.cpu_order()) {
  require(!plan.execution.lockstep || problem.gpus() <= 1, "lockstep drives one GPU");
  require(plan.execution.downcast == Downcast::kFused || problem.rates.published.has_value(),
          "a separate downcast has a rate");
  const auto count = static_cast<Index>(problem.gpus());
  for (Index g = 0; g < count; ++g) {
    Gpu gpu;
    gpu.order = plan.gpu_order(g);
    gpu.most_arriving = arrivals_at_once(problem, g);
    for (const Index subgroup : gpu.order)
      if (stays(subgroup)) gpu.resident_bytes += problem.held_bytes(subgroup).value();
    gpus_.push_back(std::move(gpu));
  }
  links_.resize(at(problem.tiers()));
  for (Index tier = 0; tier < problem.tiers(); ++tier) {
    Link& link = links_[at(tier)];
    link.rates = problem.link_of(tier);
    link.half_duplex = plan.execution.half_duplex || link.rates.half_duplex;
    link.is_gpu = problem.is_gpu(tier);
  }
  result_.kernel_busy.assign(gpus_.size(), units::Seconds{0});
  result_.links.resize(links_.size());
  result_.memory_peak.assign(gpus_.size(), units::Bytes{0});
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
  memory_since_.assign(problem.subgroups.size(), -1);
  unfinished_ = static_cast<Index>(problem.subgroups.size());
  for (const Subgroup& subgroup : problem.subgroups)
    first_depth_left_ += subgroup.depth == problem.subgroups.front().depth ? 1 : 0;
  find_departing();
  if (passes_ != nullptr) begin_passes();
}

/// States that live behind host memory come through it, in order. Those that a GPU has and does not
/// keep leave it first; what is streamed there is there already.
void Simulation::find_departing() {
  departs_.assign(problem_.subgroups.size(), false);
  passed_over_ = departs_;
  for (Index i = 0; i < std::ssize(plan_.assignments); ++i) {
    const auto& [home, device, reader] = assignment(i);
    const Index place = place_of(i);
    if (home == kHost || place == kHost) host_bytes_ += problem_.away_bytes(i).value();
    if (place == kHost || place == device) continue;
    departs_[at(i)] = true;
    if (!problem_.only_keeps(home)) {
      links_[at(place)].departing.push_back(i);
    } else {
      passing_.push_back(i);
      if (device == kCpu) ++unfinished_;  // working parameters and states both go on
    }
  }
  result_.host_peak = units::Bytes(host_bytes_);
}

void Simulation::start_everything() {
  request_gradients();
  grant_slots();
  let_residents_in();
  const Index gpus = std::ssize(gpus_);
  for (Index g = 0; g < gpus; ++g) {
    start_kernel(g);
    Link& link = links_[at(g)];
    start_link(link);
    if (!link.in.busy) start_state_in(g);
  }
  for (std::size_t tier = gpus_.size(); tier < links_.size(); ++tier) {
    start_link(links_[tier]);
    start_return(links_[tier]);
  }
  start_cpu();
  if (gpus_.empty() && passes_ != nullptr && !host_passes_.busy) start_pass(0);
  start_downcast();
}

void Simulation::grant_slots() {
  while (const std::optional<Index> subgroup = grant_slot())
    links_[at(assignment(*subgroup).home)].departing.push_back(*subgroup);
}

/// Host memory for states on their way: whose it is now; nothing where there is none left.
std::optional<Index> Simulation::grant_slot() {
  if (passing_.empty() || is_way_taken()) return std::nullopt;
  const auto next = next_to_pass();
  const Index subgroup = *next;
  // Sums of whole subgroups' bytes may round.
  const double room = problem_.host_memory.value() * (1 + 1e-12);
  const double bytes = host_bytes_ + problem_.away_bytes(subgroup).value();
  if (bytes > room) return std::nullopt;
  passing_.erase(next);
  ++granted_;
  host_bytes_ = bytes;
  result_.host_peak = std::max(result_.host_peak, units::Bytes(host_bytes_));
  return subgroup;
}

void Simulation::start(Lane& lane, Work work, Index subgroup, double amount, double latency) {
  lane = {.busy = true,
          .work = work,
          .subgroup = subgroup,
          .begin = now_,
          .flows_from = now_ + latency,
          .amount = amount,
          .left = amount,
          .rate = 0};
}

void Simulation::start_first(Lane& lane, Work work, std::deque<Index>& waiting,
                             units::BytesPerParam each, double latency) {
  const Index subgroup = waiting.front();
  waiting.pop_front();
  start(lane, work, subgroup, params(subgroup) * each.value(), latency);
}

/// Gradients are asked for in the order of the CPU, so far ahead of it that it does not run dry
/// while states occupy the link.
void Simulation::request_gradients() {
  const std::size_t running = workers_.size() - idle_workers_.size();
  const std::size_t until = std::min(cpu_begun_ - running + gradients_ahead_, cpu_order_.size());
  for (; gradients_requested_ < until; ++gradients_requested_) {
    const Index subgroup = cpu_order_[gradients_requested_];
    links_[at(reader_of(subgroup))].gradients.push_back(subgroup);
  }
}

void Simulation::start_kernel(Index g) {
  if (gpus_[at(g)].kernel.busy || start_gpu_update(g)) return;
  if (passes_ != nullptr) start_pass(g);
}

/// Whether there was one to begin.
bool Simulation::start_gpu_update(Index g) {
  Gpu& gpu = gpus_[at(g)];
  if (gpu.next_kernel == gpu.order.size()) return false;
  const Index subgroup = gpu.order[gpu.next_kernel];
  const bool here =
      static_cast<Index>(gpu.next_kernel) < gpu.arrived || resident_needs_nothing(subgroup);
  if (!here || !kernel_may_start(subgroup)) return false;
  // The host reaches the GPU's turn: what the CPU has finished goes to the downcast thread.
  to_downcast_.insert(to_downcast_.end(), not_submitted_.begin(), not_submitted_.end());
  not_submitted_.clear();
  start(gpu.kernel, Work::kGpuUpdate, subgroup, params(subgroup), launch_left(gpu, subgroup));
  ++gpu.next_kernel;
  return true;
}

void Simulation::start_link(Link& link) {
  const UpdateCost& cost = problem_.cost;
  const double latency = link.rates.latency.value();
  if (!link.out.busy) {
    const bool state_comes_in = link.in.busy && link.in.work == Work::kStateIn;
    const bool may_go_out = !link.half_duplex || !state_comes_in;
    if (!link.gradients.empty())
      start_first(link.out, Work::kGradientOut, link.gradients, cost.gradient, latency);
    else if (!link.departing.empty() && may_go_out)
      start_first(link.out, Work::kStateOut, link.departing, link.is_gpu ? cost.state : cost.away(),
                  state_latency(link));
    else if (!link.states.empty() && may_go_out && stays(link.states.front()))
      start_first(link.out, Work::kParameterOut, link.states, cost.host_parameter, latency);
    else if (!link.states.empty() && may_go_out)
      start_first(link.out, Work::kStateOut, link.states, cost.streamed_out(), state_latency(link));
  }
  // Working parameters are small and the next forward waits for them; states have their window.
  if (!link.in.busy && !link.weights.empty())
    start_first(link.in, Work::kWeightIn, link.weights, cost.weight, latency);
}

void Simulation::start_return(Link& link) {
  const bool taken = link.in.busy || (link.half_duplex && link.out.busy);
  if (!taken && !link.returning.empty())
    start_first(link.in, Work::kStateIn, link.returning, problem_.cost.away(), state_latency(link));
}

/// A kernel is launched while the one before runs, once its states are there; in lockstep only when
/// the host comes to it.
double Simulation::launch_left(const Gpu& gpu, Index subgroup) const {
  const double latency = problem_.rates.task_latency.value();
  if (plan_.execution.lockstep) return latency;
  const double since = std::max(on_gpu_since_[at(subgroup)], gpu.kernel.flows_from);
  return std::max(0.0, since + latency - now_);
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

/// The first in order that may start, without waiting for states that come from a tier that only
/// keeps: a worker takes what is ready.
std::optional<Index> Simulation::next_for_cpu() {
  if (!late_.empty()) {
    const Index subgroup = late_.top();
    late_.pop();
    return subgroup;
  }
  while (cpu_next_ < cpu_order_.size()) {
    const Index subgroup = cpu_order_[cpu_next_];
    const bool may_start = cpu_may_start(subgroup);
    const bool comes = departs_[at(subgroup)] && problem_.only_keeps(assignment(subgroup).home);
    if (!may_start && (!comes || !gradient_here_[at(subgroup)] || plan_.execution.lockstep))
      return std::nullopt;
    ++cpu_next_;
    if (may_start) return subgroup;
    passed_over_[at(subgroup)] = true;
  }
  return std::nullopt;
}

void Simulation::start_cpu() {
  while (!idle_workers_.empty()) {
    const std::optional<Index> next = next_for_cpu();
    if (!next) return;
    const Index subgroup = *next;
    const Index worker = idle_workers_.back();
    idle_workers_.pop_back();
    workers_[at(worker)] = {.subgroup = subgroup, .begin = now_, .waits_for_copy = false};
    updates_.waiting.push({now_ + problem_.rates.task_latency.value(), worker});
    ++cpu_begun_;
    request_gradients();
  }
}

void Simulation::start_downcast() {
  if (downcast_lane_.busy || to_downcast_.empty()) return;
  const Index subgroup = to_downcast_.front();
  to_downcast_.pop_front();
  start(downcast_lane_, Work::kDowncast, subgroup, params(subgroup), 0);
}

/// Both directions at once share `both`: GPUs' links in proportion to what each does alone; a
/// disk's queue serves reads and writes alike, and what one cannot take is the other's.
Simulation::Pair Simulation::at_once(const Link& link, double in, double out, double both) const {
  if (link.is_gpu) {
    const double narrowed = std::min(1.0, both / (in + out));
    return {in * narrowed, out * narrowed};
  }
  const double half = both / 2;
  return {std::min(in, std::max(half, both - out)), std::min(out, std::max(half, both - in))};
}

void Simulation::limit_link(const Link& link, bool cpu_busy) {
  const double dram = 1;  // a copied byte is one byte of DRAM
  const perfmodels::LinkRates& rates = link.rates;
  const bool goes_in = flowing(link.in);
  const bool goes_out = flowing(link.out);
  Pair alone{rates.in.value(), rates.out.value()};
  Pair busy = cpu_busy ? Pair{rates.in_cpu_busy.value(), rates.out_cpu_busy.value()} : alone;
  if (goes_in && goes_out) {
    alone = at_once(link, alone.in, alone.out, rates.both.value());
    busy = at_once(link, busy.in, busy.out, (cpu_busy ? rates.both_cpu_busy : rates.both).value());
  }
  const auto add = [&](double rate, double limit) {
    flows_.push_back({.rate = rate, .bytes = dram, .limit = limit, .leads = !link.is_gpu});
  };
  if (goes_in) add(alone.in, std::min(alone.in, busy.in));
  if (goes_out) add(alone.out, std::min(alone.out, busy.out));
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
  for (const Link& link : links_) limit_link(link, updating > 0);
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
  for (Link& link : links_) {
    if (flowing(link.in)) link.in.rate = flows_[next++].rate;
    if (flowing(link.out)) link.out.rate = flows_[next++].rate;
  }
  // Workers that update nothing compute.
  host_passes_.rate = 1 - updating / static_cast<double>(workers_.size());
  const bool published = plan_.execution.published_kernels && rates.published;
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    const auto update = published ? rates.published->gpu_update : rates.gpus[g].update;
    Lane& kernel = gpus_[g].kernel;
    kernel.rate = kernel.work == Work::kPass ? 1 : update.value();  // seconds of a pass
  }
}

}  // namespace dos::sched
