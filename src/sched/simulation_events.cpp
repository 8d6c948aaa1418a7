// SPDX-License-Identifier: Apache-2.0
// What happens at the end of each activity.
#include <algorithm>

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

}  // namespace

void Simulation::advance(double step) {
  const auto move = [&](Lane& lane) {
    if (flowing(lane)) lane.left -= step * lane.rate;
  };
  for (Gpu& gpu : gpus_) {
    move(gpu.in);
    move(gpu.out);
    move(gpu.kernel);
  }
  move(downcast_lane_);
  for (Crew* crew : {&updates_, &downcasts_})
    if (!crew->active.empty()) crew->progress += step * crew->rate;
  result_.cpu_busy += units::Seconds(step * updates_.count());
  now_ += step;
}

void Simulation::finish_due(double step) {
  const double soon = step * kRounding;
  const auto due = [&](const Lane& lane) {
    return flowing(lane) && lane.left <= lane.rate * soon + kRounding * params(lane.subgroup);
  };
  const auto begin_flow = [&](Lane& lane) {
    // Rounding must not leave a latency of a few femtoseconds.
    if (lane.busy && lane.flows_from <= now_ + soon)
      lane.flows_from = std::min(lane.flows_from, now_);
  };
  // Copies first: what they free or bring may let the rest of this instant begin.
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    Gpu& gpu = gpus_[g];
    for (Lane* lane : {&gpu.out, &gpu.in, &gpu.kernel}) {
      begin_flow(*lane);
      if (due(*lane)) finish_lane(*lane, static_cast<Index>(g));
    }
  }
  if (due(downcast_lane_)) finish_lane(downcast_lane_, -1);
  finish_crew(downcasts_, true);
  finish_crew(updates_, false);
}

void Simulation::finish_lane(Lane& lane, Index g) {
  const Index subgroup = lane.subgroup;
  const units::Seconds time(now_ - lane.begin);
  lane.busy = false;
  log(lane.work, subgroup, g, -1, lane.begin);
  if (lane.work == Work::kDowncast) {
    gpus_[at(gpu_of(subgroup))].weights.push_back(subgroup);
    return;
  }
  Gpu& gpu = gpus_[at(g)];
  const units::Params size(params(subgroup));
  const UpdateCost& cost = problem_.cost;
  switch (lane.work) {
    case Work::kStateIn:
    case Work::kGradientIn:
      gpu.arrived = static_cast<Index>(gpu.next_in);
      on_gpu_since_[at(subgroup)] = now_;
      result_.h2d_busy[at(g)] += time;
      result_.h2d_bytes[at(g)] += size * (lane.work == Work::kGradientIn ? cost.host_gradient
                                          : home_of(subgroup) == g       ? units::BytesPerParam(0)
                                                                         : cost.streamed_in());
      break;
    case Work::kWeightIn:
      result_.h2d_busy[at(g)] += time;
      result_.h2d_bytes[at(g)] += size * cost.weight;
      weight_is_ready(subgroup);
      --unfinished_;
      for (std::size_t w = 0; w < workers_.size(); ++w)
        if (workers_[w].waits_for_copy && workers_[w].subgroup == subgroup)
          release_worker(static_cast<Index>(w));
      break;
    case Work::kGpuUpdate:
      result_.kernel_busy[at(g)] += time;
      if (arrives(subgroup)) --gpu.arriving;
      host_end_ = now_;
      if (!model_on_host()) weight_is_ready(subgroup);
      if (is_resident(subgroup) && !model_on_host())
        --unfinished_;
      else
        gpu.states.push_back(subgroup);
      break;
    case Work::kStateOut:
      result_.d2h_busy[at(g)] += time;
      if (departs_[at(subgroup)]) {
        departs_[at(subgroup)] = false;
        result_.d2h_bytes[at(g)] += size * cost.state;
        break;
      }
      result_.d2h_bytes[at(g)] += size * cost.streamed_out();
      --gpu.slots;
      change_memory(g, -(size * cost.held()).value());
      if (model_on_host()) weight_is_ready(subgroup);
      --unfinished_;
      break;
    case Work::kParameterOut:
      result_.d2h_busy[at(g)] += time;
      result_.d2h_bytes[at(g)] += size * cost.host_parameter;
      weight_is_ready(subgroup);
      --unfinished_;
      break;
    case Work::kGradientOut:
      result_.d2h_busy[at(g)] += time;
      result_.d2h_bytes[at(g)] += size * cost.gradient;
      gradient_here_[at(subgroup)] = true;
      break;
    case Work::kCpuUpdate:
    case Work::kDowncast:
      require(false, "no lane of a GPU does this");
  }
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
    gpus_[at(gpu_of(worker.subgroup))].weights.push_back(worker.subgroup);
  }
}

void Simulation::finish_cpu_update(Index index) {
  Worker& worker = workers_[at(index)];
  const Index subgroup = worker.subgroup;
  log(Work::kCpuUpdate, subgroup, -1, index, worker.begin);
  ++cpu_done_;
  const bool copies = gpu_of(subgroup) >= 0 && problem_.cost.weight.value() > 0;
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
    gpus_[at(gpu_of(subgroup))].weights.push_back(subgroup);
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

void Simulation::log(Work work, Index subgroup, Index gpu, Index worker, double begin) {
  if (record_)
    result_.activities.push_back(
        {work, subgroup, gpu, worker, units::Seconds(begin), units::Seconds(now_)});
}

}  // namespace dos::sched
