// SPDX-License-Identifier: Apache-2.0
#include "planner/runtime_bytes.hpp"

#include <algorithm>
#include <cmath>

#include "base/real.hpp"
#include "shape/activation_sets.hpp"
#include "shape/family_shape.hpp"

namespace dos::planner {
namespace {

/// StarPU's record of a buffer, in a library for 16 memory nodes, as Debian's
/// (rt::handle_bytes()).
constexpr double kRecordOfBuffer = 11'392;
/// Of a task that waits (rt::task_bytes()), with what it is given.
constexpr double kRecordOfTask = 1536 + 512;
constexpr double kPlaceOfBuffer = 512;
constexpr double kBuffersOfTask = 6;
/// What all that wait take at most: the submitter waits then (rt::kMostPendingTasks).
constexpr double kMostRecordsOfTasks = 20'000.0 * 4096;
/// Of what a task took, until a step's metrics are written (rt::TaskRecord).
constexpr double kTimesOfTask = 56;
constexpr double kStepsAhead = 2;         ///< train.run_ahead
constexpr double kValidationBatches = 8;  ///< train.validate_batches, submitted at once
constexpr double kPage = 4096;
constexpr double kEntryOfPage = 8;
/// Buffers of two checkpoints under way, at least, and of the disk's engine.
constexpr double kLeastBuffers = 32.0 * (1 << 20);
constexpr double kEngineBuffers = 32.0 * (1 << 20);
/// Of two that copy states of other disks than theirs.
constexpr double kCopyBuffers = 32.0 * (1 << 20);

struct Counts {
  double buffers = 0;
  double tasks = 0;  ///< of forward and backward
  double updates = 0;
  double most_pieces = 0;
};

/// Buffers and tasks of forward and backward of a lane, as models::counts() has them.
Counts of_lane(const shape::Model& model, const PlanSettings& settings, double largest,
               double tokens, bool on_gpus) {
  const shape::Passes passes{
      .training = true,
      .plan = settings.activations,
      .reached = shape::reached_blocks(model.config, model.first_trained_depth())};
  const shape::BlockShape block = model.family->block(model.config);
  const shape::ActivationSets sets(model.config, passes);
  const std::string head = shape::head_of(model.config);
  constexpr Index kEnds = 7;
  Index buffers = kEnds + model.config.layers + 1 +
                  shape::gradient_sets(model.config, passes) * std::ssize(block.gradients);
  for (const shape::Activation& each : block.kept) buffers += sets.count(each);
  Counts counts{.buffers = real(buffers)};
  double head_pieces = 0;
  for (const shape::ParameterSpec& each : model.parameters) {
    const double pieces = std::ceil(real(each.count()) / largest);
    counts.most_pieces = std::max(counts.most_pieces, pieces);
    if (!each.is_matrix() || !each.trained) continue;
    if (each.name == head) head_pieces = pieces;
    if (each.name != head || each.is_table) counts.tasks += pieces;
  }
  Index refills = 0;
  for (Index layer = 0; layer < model.config.layers; ++layer) {
    const shape::Refill refill = sets.refill(layer);
    if (refill == shape::Refill::kRecompute)
      refills += block.recompute_tasks;
    else if (refill != shape::Refill::kNone)
      refills += block.selective_tasks;
  }
  const double rows = std::min(tokens, real(shape::LaneWorkers{.on_gpus = on_gpus}.logits_rows()));
  counts.tasks += 5 + real(model.config.layers * block.forward_tasks) +
                  real(passes.reached * block.backward_tasks + refills) +
                  std::ceil(tokens / std::max(1.0, rows)) * (3 + head_pieces);
  return counts;
}

/// Of a rank, its subgroups included.
Counts of_rank(const shape::Model& model, const Deployment& layout, const PlanSettings& settings,
               const sched::Problem& problem) {
  const double tokens = layout.tokens * real(layout.devices_per_rank);
  const double context = real(std::max<Index>(1, model.config.context));
  const double workers = real(problem.gpus() > 0 ? problem.gpus() : problem.rates.cpu_workers);
  const double lanes = std::clamp(std::floor(tokens / context), 1.0, std::max(1.0, workers));
  // Those of another rank may be larger than this one's.
  const Index largest = std::max(problem.largest(), settings.subgroup_params);
  Counts counts = of_lane(model, settings, real(largest), tokens / lanes, problem.gpus() > 0);
  counts.buffers *= lanes;
  counts.tasks *= lanes;
  // A rank knows all ranks' subgroups.
  const double ranks = real(layout.ranks());
  const double subgroups = real(std::ssize(problem.subgroups)) * ranks;
  counts.buffers += subgroups * (8 + real(settings.rule_states)) + 2 * ranks;
  counts.updates = subgroups * (3 + ranks) + 2 * ranks;
  return counts;
}

}  // namespace

units::Bytes runtime_bytes(const shape::Model& model, const Deployment& layout,
                           const PlanSettings& settings, const sched::Problem& problem,
                           units::Bytes registered) {
  const Counts counts = of_rank(model, layout, settings, problem);
  const double task = kRecordOfTask + kPlaceOfBuffer * (kBuffersOfTask + counts.most_pieces);
  const double step = counts.tasks + counts.updates;
  const double validation = kValidationBatches * counts.tasks;
  const double waiting = std::max(kStepsAhead * step, validation);
  const double records = counts.buffers * kRecordOfBuffer +
                         std::min(waiting * task, kMostRecordsOfTasks) +
                         (2 * waiting + std::max(step, validation)) * kTimesOfTask;
  return units::Bytes(records) + (registered + units::Bytes(records)) * (kEntryOfPage / kPage);
}

units::Bytes checkpoint_buffers(const PlanSettings& settings, const sched::Problem& problem) {
  const double values = problem.total().value() * 4 * real(1 + settings.rule_states);
  const double copies = settings.disks.size() > 1 ? kCopyBuffers : 0;
  return units::Bytes(std::min(
      std::max(kLeastBuffers, settings.checkpoint_memory.value()) + kEngineBuffers + copies,
      2 * values));
}

}  // namespace dos::planner
