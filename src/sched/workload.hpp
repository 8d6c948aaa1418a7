// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "base/types.hpp"
#include "perfmodels/rates.hpp"

namespace dos::sched {

/// Tiers, where states live, have numbers: host memory, then GPUs from 0 on, then those of
/// Rates::tiers. All but host memory have a link to it.
inline constexpr Index kHost = -1;

/// The unit of the optimizer as the planner sees it.
struct Subgroup {
  Index params = 0;
  Index depth = 0;  ///< place in the order in which the next forward needs the parameters
  /// The GPU that has its gradient and uses its working parameters next; -1: any.
  Index user = -1;
  /// Parameters for which a GPU has memory in its place, which others can use; 0: its own.
  Index room = 0;
  /// The GPU on which its states stay for good and that updates it, whatever the plan; -1: none.
  Index kept_on = -1;

  bool operator==(const Subgroup&) const = default;
};

/// What the update of a parameter moves.
struct UpdateCost {
  units::BytesPerParam state{12};  ///< FP32 p and the rule's states: each way when streamed
  /// Of `state`, what host memory has wherever the rest lives: in FP32 p, which forward reads.
  units::BytesPerParam stays{0};
  /// Working parameter, host to GPU, of what the CPU updates; 4 in FP32, 0 where the GPU runs no
  /// forward pass.
  units::BytesPerParam weight{2};
  /// Gradient, GPU to host, of what the CPU updates; 0 when it left during backward.
  units::BytesPerParam gradient{0};
  /// Gradient, host to GPU, of what a GPU updates: where the CPU runs forward and backward, and
  /// where sums of several ranks' gradients are made in host memory.
  units::BytesPerParam host_gradient{0};
  /// Where the CPU runs forward and backward: working parameter, GPU to host, of what stays on a
  /// GPU.
  units::BytesPerParam host_parameter{0};
  /// There, working parameter that goes home beside streamed states: 2 in BF16, 0 in FP32, where it
  /// is p.
  units::BytesPerParam host_weight{0};
  units::BytesPerParam cpu_traffic = perfmodels::kCpuUpdateTraffic;  ///< DRAM, by a CPU update

  /// Buffers that hold the states of a subgroup: each is a copy of its own, with its latency.
  Index state_buffers = 1;
  /// Where states are updated: 1: in place; 2: into another bank.
  Index banks = 1;

  /// What leaves host memory for a tier that only keeps, or for good: of it a state is made there.
  [[nodiscard]] units::BytesPerParam away() const { return state - stays; }
  /// Over the link when streamed: to the GPU, and back.
  [[nodiscard]] units::BytesPerParam streamed_in() const { return state + host_gradient; }
  [[nodiscard]] units::BytesPerParam streamed_out() const { return state + host_weight; }
  /// GPU memory of what is updated there.
  [[nodiscard]] units::BytesPerParam held() const {
    return state * static_cast<double>(banks) + host_gradient + host_weight;
  }
  bool operator==(const UpdateCost&) const = default;
};

/// A GPU whose weights need not stay: they may come from host memory for the layer at work, and go.
struct PassingWeights {
  units::Bytes bytes{0};     ///< of weights that may pass; 0: all stay
  units::Bytes update{0};    ///< StateMemory::update without them
  units::Bytes resident{0};  ///< StateMemory::resident without them

  bool operator==(const PassingWeights&) const = default;
};

/// Memory of one GPU for states, those that it keeps for good included.
struct StateMemory {
  units::Bytes update;      ///< free while the update runs (activations are gone)
  units::Bytes resident;    ///< free at the peak of forward and backward: what may stay for ever
  units::Bytes reserve{0};  ///< free beside it, for no plan: states on their way home may be there
  /// What gradients take of `update` and `resident` if all wait there for the update; 0 where that
  /// is taken off (sched/gradients.hpp).
  units::Bytes gradients{0};
  PassingWeights passing{};

  bool operator==(const StateMemory&) const = default;
};

/// Part of a GPU's memory that runtime and plans leave free: at the very limit StarPU evicts what
/// it needs next.
inline constexpr double kMemoryReserve = 0.03;

/// Updates of the largest subgroup, with their banks, for which a GPU has memory beside the states
/// that it keeps for good: twice as many as keep it and its link at work; where disks have the
/// rest, which then take longest, no more than one that comes and one that runs.
inline constexpr double kUpdatesBesideKept = 8;
inline constexpr double kLeastUpdatesBesideKept = 2;

/// Everything a plan depends on, for one rank.
struct Problem {
  std::vector<Subgroup> subgroups;  ///< in the order of the next forward
  UpdateCost cost;
  perfmodels::Rates rates;
  std::vector<StateMemory> memory;  ///< one a GPU
  /// By subgroup, the tier where its states are when the step begins. Empty: where the plan leaves
  /// them, as in every step but those in which residents go to their places.
  std::vector<Index> homes{};
  /// What each GPU computes of the next forward, by depth: it begins as soon as working parameters
  /// are there, and plans are for its end. Empty: plans are for the end of the update.
  std::vector<units::Seconds> forward{};
  /// Host memory for states, at home there or on their way, beside what stays there in any case.
  units::Bytes host_memory{std::numeric_limits<double>::infinity()};
  /// Of it, what states that live in tiers that only keep pass through; nullopt: plans choose.
  std::optional<units::Bytes> slots{};

  bool operator==(const Problem&) const = default;

  /// Tiers with a link: GPUs, and those that only keep states.
  [[nodiscard]] Index tiers() const { return gpus() + std::ssize(rates.tiers); }
  [[nodiscard]] bool is_gpu(Index tier) const { return tier >= 0 && tier < gpus(); }
  /// What is neither a GPU nor host memory.
  [[nodiscard]] bool only_keeps(Index tier) const { return tier >= gpus(); }
  /// "host", "gpu 0", or the name in the machine file.
  [[nodiscard]] std::string name_of_tier(Index tier) const;
  /// "gpu 0 h2d", "gpu 0 d2h", "nvme write", "nvme read": a direction of its link.
  [[nodiscard]] std::string name_of_way(Index tier, bool in) const;
  /// What it holds of states at home: of host memory and of tiers that only keep.
  [[nodiscard]] units::Bytes capacity_of(Index tier) const;
  [[nodiscard]] perfmodels::LinkRates link_of(Index tier) const;

  [[nodiscard]] Index gpus() const { return static_cast<Index>(rates.gpus.size()); }
  [[nodiscard]] units::Params total() const;
  /// Whether a GPU keeps states for good (Subgroup::kept_on).
  [[nodiscard]] bool has_kept() const;
  [[nodiscard]] Index largest() const;
  [[nodiscard]] units::Bytes state_bytes(Index subgroup) const;
  /// Of them, what host memory does not have where the subgroup lives elsewhere.
  [[nodiscard]] units::Bytes away_bytes(Index subgroup) const;
  /// GPU memory of a subgroup that is updated there.
  [[nodiscard]] units::Bytes held_bytes(Index subgroup) const;
  /// The same while it is streamed: where another GPU uses it, its gradient and its working
  /// parameter are there only for the update.
  [[nodiscard]] units::Bytes streamed_bytes(Index subgroup, Index gpu) const;

  /// Throws Error unless every subgroup has parameters, the depths do not fall, the rates are
  /// positive, each GPU has a StateMemory that is not negative and holds what it keeps, host memory
  /// is not negative, and homes and forward, if any, are of this problem.
  void validate() const;
};

}  // namespace dos::sched
