// SPDX-License-Identifier: Apache-2.0
// From event to event, and what happens at the end of each activity.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "sched/simulation.hpp"

namespace dos::sched {
namespace {

std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

/// Whatever has this part of a subgroup left, or this part of a step to go, is done: times are
/// sums of many steps and round.
constexpr double kRounding = 1e-9;
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Replay Simulation::run() {
  start_everything();
  while (unfinished_ > 0) step();
  result_.makespan = units::Seconds(now_);
  result_.update_end = units::Seconds(plan_.execution.joins_copies ? now_ : host_end_);
  return std::move(result_);
}

std::optional<units::Seconds> Simulation::run_until(double limit) {
  start_everything();
  while (unfinished_ > 0) {
    // A host that does not wait for copies is done before the last of them.
    if (now_ > limit && plan_.execution.joins_copies) return std::nullopt;
    step();
  }
  return units::Seconds(plan_.execution.joins_copies ? now_ : host_end_);
}

/// To the next event, and what begins then.
void Simulation::step() {
  set_rates();
  const double step = next_event();
  require(std::isfinite(step), "the replay goes on");
  advance(step);
  finish_due(step);
  start_everything();
}

double Simulation::next_event() const {
  double step = kNever;
  const auto lane = [&](const Lane& each) {
    if (each.busy)
      step = std::min(step, flowing(each) ? each.left / each.rate : each.flows_from - now_);
  };
  for (const Link& link : links_) {
    lane(link.in);
    lane(link.out);
  }
  for (const Gpu& gpu : gpus_) lane(gpu.kernel);
  lane(host_passes_);
  lane(downcast_lane_);
  for (const Crew* crew : {&updates_, &downcasts_}) {
    if (!crew->active.empty())
      step = std::min(step, (crew->active.top().key - crew->progress) / crew->rate);
    if (!crew->waiting.empty()) step = std::min(step, crew->waiting.top().key - now_);
  }
  return std::max(step, 0.0);
}

void Simulation::advance(double step) {
  const auto move = [&](Lane& lane) {
    if (flowing(lane)) lane.left -= step * lane.rate;
  };
  for (Link& link : links_) {
    move(link.in);
    move(link.out);
  }
  for (Gpu& gpu : gpus_) move(gpu.kernel);
  move(host_passes_);
  move(downcast_lane_);
  for (Crew* crew : {&updates_, &downcasts_})
    if (!crew->active.empty()) crew->progress += step * crew->rate;
  result_.cpu_busy += units::Seconds(step * updates_.count());
  now_ += step;
}

void Simulation::finish_due(double step) {
  const double soon = step * kRounding;
  const auto due = [&](const Lane& lane) {
    return flowing(lane) && lane.left <= lane.rate * soon + kRounding * size_of(lane);
  };
  const auto is_over = [&](Lane& lane) {
    // Rounding must not leave a latency of a few femtoseconds.
    if (lane.busy && lane.flows_from <= now_ + soon)
      lane.flows_from = std::min(lane.flows_from, now_);
    return due(lane);
  };
  // Copies first: what they free or bring may let the rest of this instant begin.
  const std::size_t gpus = gpus_.size();
  for (std::size_t t = 0; t < links_.size(); ++t) {
    Link& link = links_[t];
    const auto tier = static_cast<Index>(t);
    if (is_over(link.out)) finish_copy(link.out, tier, /*in=*/false);
    if (is_over(link.in)) finish_copy(link.in, tier, /*in=*/true);
    if (t < gpus && is_over(gpus_[t].kernel)) finish_kernel(tier);
  }
  if (is_over(host_passes_)) finish_pass(0);
  if (due(downcast_lane_)) finish_downcast();
  finish_crew(downcasts_, true);
  finish_crew(updates_, false);
}

void Simulation::finish_copy(Lane& lane, Index tier, bool goes_in) {
  const bool downcast_waits = plan_.execution.downcast == Downcast::kBlocking;
  const Index subgroup = lane.subgroup;
  lane.busy = false;
  log(lane.work, subgroup, tier, -1, lane.begin);
  LinkUse& use = result_.links[at(tier)];
  (goes_in ? use.in_busy : use.out_busy) += units::Seconds(now_ - lane.begin);
  (goes_in ? use.in_bytes : use.out_bytes) += units::Bytes(lane.amount);
  switch (lane.work) {
    case Work::kStateIn:
    case Work::kGradientIn:
      return finish_state_in(subgroup, tier);
    case Work::kStateOut:
      return finish_state_out(subgroup, tier);
    case Work::kGradientOut:
      gradient_here_[at(subgroup)] = true;
      if (passes_ != nullptr) let_cpu_have(subgroup);
      return;
    case Work::kWeightIn:
      for (std::size_t w = 0; downcast_waits && w < workers_.size(); ++w)
        if (workers_[w].waits_for_copy && workers_[w].subgroup == subgroup)
          release_worker(static_cast<Index>(w));
      [[fallthrough]];
    case Work::kParameterOut:
      weight_is_ready(subgroup);
      --unfinished_;
      return;
    case Work::kCpuUpdate:
    case Work::kGpuUpdate:
    case Work::kDowncast:
    case Work::kPass:
      require(false, "no link does this");
  }
}

void Simulation::finish_state_in(Index subgroup, Index tier) {
  if (problem_.is_gpu(tier)) {
    Gpu& gpu = gpus_[at(tier)];
    gpu.arrived = static_cast<Index>(gpu.next_in);
    on_gpu_since_[at(subgroup)] = now_;
  } else {
    host_bytes_ -= problem_.away_bytes(subgroup).value();
    ++home_again_;
    --unfinished_;
  }
}

void Simulation::finish_state_out(Index subgroup, Index tier) {
  if (departs_[at(subgroup)]) {
    departs_[at(subgroup)] = false;
    if (passed_over_[at(subgroup)]) late_.push(subgroup);
    if (passes_ != nullptr && is_on_cpu(assignment(subgroup))) let_cpu_have(subgroup);
    return;
  }
  --gpus_[at(tier)].slots;
  change_memory(tier, -problem_.held_bytes(subgroup).value());
  if (model_on_host()) weight_is_ready(subgroup);
  go_home(subgroup);
}

/// States that are in host memory again.
void Simulation::go_home(Index subgroup) {
  const Index home = assignment(subgroup).home;
  if (home == kHost)
    --unfinished_;
  else
    links_[at(home)].returning.push_back(subgroup);
}

void Simulation::finish_kernel(Index g) {
  Gpu& gpu = gpus_[at(g)];
  if (gpu.kernel.work == Work::kPass) return finish_pass(g);
  const Index subgroup = gpu.kernel.subgroup;
  gpu.kernel.busy = false;
  log(Work::kGpuUpdate, subgroup, g, -1, gpu.kernel.begin);
  result_.kernel_busy[at(g)] += units::Seconds(now_ - gpu.kernel.begin);
  if (arrives(subgroup)) --gpu.arriving;
  host_end_ = now_;
  if (!model_on_host()) weight_is_ready(subgroup);
  if (stays(subgroup) && !model_on_host())
    --unfinished_;
  else
    links_[at(g)].states.push_back(subgroup);
}

void Simulation::finish_downcast() {
  const Index subgroup = downcast_lane_.subgroup;
  downcast_lane_.busy = false;
  log(Work::kDowncast, subgroup, -1, -1, downcast_lane_.begin);
  links_[at(reader_of(subgroup))].weights.push_back(subgroup);
}

void Simulation::finish_crew(Crew& crew, bool is_downcast) {
  while (!crew.waiting.empty() && crew.waiting.top().key <= now_ * (1 + 1e-15)) {
    const Index worker = crew.waiting.top().worker;
    crew.waiting.pop();
    crew.active.push({crew.progress + params(workers_[at(worker)].subgroup), worker});
  }
  while (!crew.active.empty()) {
    const auto member = crew.active.top();
    const double size = params(workers_[at(member.worker)].subgroup);
    if (member.key - crew.progress > kRounding * size) break;
    crew.active.pop();
    if (!is_downcast) {
      finish_cpu_update(member.worker);
      continue;
    }
    Worker& worker = workers_[at(member.worker)];
    log(Work::kDowncast, worker.subgroup, -1, member.worker, worker.begin);
    worker.waits_for_copy = true;
    links_[at(reader_of(worker.subgroup))].weights.push_back(worker.subgroup);
  }
}

void Simulation::finish_cpu_update(Index index) {
  Worker& worker = workers_[at(index)];
  const Index subgroup = worker.subgroup;
  log(Work::kCpuUpdate, subgroup, -1, index, worker.begin);
  ++cpu_done_;
  if (assignment(subgroup).home != kHost) go_home(subgroup);
  const bool copies = reader_of(subgroup) >= 0 && problem_.cost.weight.value() > 0;
  const bool separate = copies && plan_.execution.downcast != Downcast::kFused;
  if (separate && plan_.execution.downcast == Downcast::kBlocking) {
    worker.begin = now_;
    downcasts_.waiting.push({now_, index});
    return;
  }
  release_worker(index);
  if (separate) {
    not_submitted_.push_back(subgroup);
    if (cpu_done_ == cpu_order_.size()) {
      to_downcast_.insert(to_downcast_.end(), not_submitted_.begin(), not_submitted_.end());
      not_submitted_.clear();
    }
  } else if (copies) {
    links_[at(reader_of(subgroup))].weights.push_back(subgroup);
  } else {
    weight_is_ready(subgroup);
    --unfinished_;
  }
}

void Simulation::release_worker(Index index) {
  workers_[at(index)] = {};
  idle_workers_.push_back(index);
  host_end_ = now_;
}

void Simulation::weight_is_ready(Index subgroup) {
  if (passes_ != nullptr) --progress_.weights_left[depth_of(subgroup)];
  if (problem_.subgroups[at(subgroup)].depth != problem_.subgroups.front().depth) return;
  if (--first_depth_left_ == 0) result_.first_ready = units::Seconds(now_);
}

void Simulation::change_memory(Index g, double bytes) {
  Gpu& gpu = gpus_[at(g)];
  gpu.window_bytes += bytes;
  const units::Bytes held(gpu.window_bytes + gpu.resident_bytes);
  result_.memory_peak[at(g)] = std::max(result_.memory_peak[at(g)], held);
  if (record_) result_.memory[at(g)].push_back({units::Seconds(now_), held});
}

void Simulation::log(Work work, Index subgroup, Index tier, Index worker, double begin) {
  if (record_)
    result_.activities.push_back(
        {work, subgroup, tier, worker, units::Seconds(begin), units::Seconds(now_)});
}

}  // namespace dos::sched
