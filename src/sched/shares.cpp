// SPDX-License-Identifier: Apache-2.0
#include "sched/shares.hpp"

#include <algorithm>
#include <optional>

#include "sched/interleave.hpp"

namespace dos::sched {
namespace {

/// What residents may take of a GPU, beside the window of what is streamed there, if anything.
units::Bytes room_for_residents(const Scope& scope, Index gpu, bool streams,
                                std::optional<Index> window) {
  if (!scope.options.residents) return units::Bytes{0};
  const StateMemory& memory = scope.problem.memory[static_cast<std::size_t>(gpu)];
  units::Bytes room = std::min(memory.update, memory.resident);
  if (streams) {
    const auto slots =
        static_cast<double>(window.value_or(useful_window(scope.problem, gpu, scope.size)));
    room = std::min(room, memory.update - scope.streamed() * scope.problem.cost.held() * slots);
  }
  return std::max(units::Bytes{0}, room);
}

}  // namespace

Scope whole_scope(const Problem& problem, const PolicyOptions& options) {
  return {problem, options, Residents::kAnywhere, problem.largest()};
}

Scope scope_by_size(const Problem& problem, const PolicyOptions& options) {
  const Index size = size_behind_largest(problem, options);
  if (2 * size > problem.largest()) return whole_scope(problem, options);
  return {problem, options, Residents::kLargest, size};
}

units::Params Shares::all_streamed() const {
  units::Params sum{0};
  for (const units::Params each : streamed) sum += each;
  return sum;
}

bool Shares::mixes() const {
  return all_streamed().value() > 0 &&
         std::ranges::any_of(resident, [](units::Bytes each) { return each.value() > 0; });
}

Shares scaled(const Shares& shares, double factor) {
  Shares result = shares;
  for (units::Params& each : result.streamed) each = each * factor;
  return result;
}

Shares shares_of(const Scope& scope, const Bound& bound) {
  const Problem& problem = scope.problem;
  Shares shares{{}, bound.streamed};
  for (Index g = 0; g < problem.gpus(); ++g) {
    const auto gpu = static_cast<std::size_t>(g);
    const bool streams = bound.streamed[gpu] > problem.total() * 1e-9;
    // The optimum rounded up by one subgroup: rounding down would leave memory unused.
    const units::Bytes wanted = (bound.resident[gpu] + scope.streamed()) * problem.cost.held();
    const units::Bytes room = room_for_residents(scope, g, streams, scope.options.window);
    shares.resident.push_back(std::min(room, wanted));
  }
  return shares;
}

Shares shares_beside(const Scope& scope, units::Params cpu) {
  const Problem& problem = scope.problem;
  Shares shares;
  units::Params left = std::max(units::Params{0}, problem.total() - cpu);
  const units::Params each = left / static_cast<double>(problem.gpus());
  for (Index g = 0; g < problem.gpus(); ++g) {
    const units::Bytes states = each * problem.cost.held();
    const bool streams = states > room_for_residents(scope, g, /*streams=*/false, {});
    const units::Bytes room = room_for_residents(scope, g, streams, scope.options.window);
    shares.resident.push_back(std::min(states, room));
    left -= shares.resident.back() / problem.cost.held();
  }
  // Whole subgroups may leave room for residents unused, on each GPU less than one.
  const units::Params one = scope.streamed() * (cpu.value() > 0 ? 0.0 : 1.0);
  shares.streamed.assign(shares.resident.size(), left / static_cast<double>(problem.gpus()) + one);
  return shares;
}

Shares with_window(const Scope& scope, const Shares& start, Index window) {
  Shares shares = start;
  for (Index g = 0; g < scope.problem.gpus(); ++g) {
    units::Bytes& resident = shares.resident[static_cast<std::size_t>(g)];
    const units::Bytes room = room_for_residents(scope, g, /*streams=*/true, window);
    if (resident <= room) continue;
    shares.streamed[static_cast<std::size_t>(g)] += (resident - room) / scope.problem.cost.held();
    resident = room;
  }
  return shares;
}

}  // namespace dos::sched
