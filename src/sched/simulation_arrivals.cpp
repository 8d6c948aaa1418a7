// SPDX-License-Identifier: Apache-2.0
// States on their way into the memory of a GPU.
#include <algorithm>

#include "sched/simulation.hpp"

namespace dos::sched {
namespace {

std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

/// GPUs in turn, as all of them begin at once.
void Simulation::let_residents_in() {
  if (problem_.homes.empty()) return;
  for (bool any = true; any;) {
    any = false;
    for (Gpu& gpu : gpus_) {
      std::size_t& place = gpu.next_to_arrive;
      while (place < gpu.order.size() &&
             (!arrives(gpu.order[place]) || memory_since_[at(gpu.order[place])] >= 0))
        ++place;
      if (place < gpu.order.size() && let_in(gpu, gpu.order[place])) any = true;
    }
  }
}

/// Allocates for a resident that arrives, while the states of those before it come. False: too many
/// are on their way, or its states have yet to leave where they are.
bool Simulation::let_in(Gpu& gpu, Index subgroup) {
  if (gpu.arriving >= gpu.most_arriving || departs_[at(subgroup)]) return false;
  ++gpu.arriving;
  allocated_until_ =
      std::max(allocated_until_, now_) +
      problem_.rates.allocation.value() * static_cast<double>(problem_.cost.state_buffers);
  memory_since_[at(subgroup)] = allocated_until_;
  return true;
}

/// The place in the order of the next one to come. In a whole step those go first
/// that have a slot, for which others wait, then what is in host memory.
std::size_t Simulation::next_to_come(const Gpu& gpu) const {
  if (passes_ == nullptr || passes_->backward_is_over) return gpu.next_in;
  const auto is_here = [&](Index subgroup) { return !departs_[at(subgroup)]; };
  const auto from = gpu.order.begin() + static_cast<std::ptrdiff_t>(gpu.next_in);
  auto first = std::find_if(from, gpu.order.end(), [&](Index subgroup) {
    return is_here(subgroup) && problem_.only_keeps(assignment(subgroup).home);
  });
  if (first == gpu.order.end()) first = std::find_if(from, gpu.order.end(), is_here);
  return first == gpu.order.end() ? gpu.next_in
                                  : static_cast<std::size_t>(first - gpu.order.begin());
}

void Simulation::start_state_in(Index g) {
  Gpu& gpu = gpus_[at(g)];
  Link& link = links_[at(g)];
  while (gpu.next_in < gpu.order.size() && resident_needs_nothing(gpu.order[gpu.next_in])) {
    ++gpu.next_in;
    // States arrive in order, so residents count as soon as those before them are there.
    if (gpu.arrived == static_cast<Index>(gpu.next_in) - 1) ++gpu.arrived;
  }
  if (gpu.next_in == gpu.order.size()) return;
  const bool goes_out = link.out.busy && link.out.work == Work::kStateOut;
  if (link.half_duplex && goes_out) return;
  const std::size_t place = next_to_come(gpu);
  const Index subgroup = gpu.order[place];
  if (departs_[at(subgroup)]) return;
  const auto take = [&] {
    const auto begin = gpu.order.begin();
    const auto next = static_cast<std::ptrdiff_t>(gpu.next_in++);
    const auto taken = static_cast<std::ptrdiff_t>(place);
    std::rotate(begin + next, begin + taken, begin + taken + 1);
  };
  if (stays(subgroup) && !arrives(subgroup)) {
    take();
    start(link.in, Work::kGradientIn, subgroup,
          params(subgroup) * problem_.cost.host_gradient.value(), link.rates.latency.value());
    return;
  }
  if (arrives(subgroup)) {
    if (memory_since_[at(subgroup)] < 0 && !let_in(gpu, subgroup)) return;
    take();
    start(link.in, Work::kStateIn, subgroup, params(subgroup) * problem_.cost.streamed_in().value(),
          std::max(state_latency(link), memory_since_[at(subgroup)] - now_));
    return;
  }
  if (gpu.slots >= plan_.window[at(g)] || !fits(gpu, g, subgroup)) return;
  take();
  ++gpu.slots;
  change_memory(g, problem_.held_bytes(subgroup).value());
  const bool is_here = place_of(subgroup) == g;
  start(link.in, Work::kStateIn, subgroup,
        is_here ? 0 : params(subgroup) * problem_.cost.streamed_in().value(),
        is_here ? 0 : state_latency(link));
}

bool Simulation::fits(const Gpu& gpu, Index g, Index subgroup) const {
  // Sums of whole subgroups' bytes may round.
  const double room = plan_.window_memory[at(g)].value() * (1 + 1e-12);
  return gpu.window_bytes + problem_.held_bytes(subgroup).value() <= room;
}

}  // namespace dos::sched
