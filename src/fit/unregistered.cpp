// SPDX-License-Identifier: Apache-2.0
#include "fit/unregistered.hpp"

#include <algorithm>

#include "base/memory_category.hpp"
#include "base/real.hpp"
#include "checkpoint/copier.hpp"
#include "checkpoint/range_copy.hpp"
#include "checkpoint/writer.hpp"
#include "models/demand.hpp"
#include "optim/optimizer.hpp"
#include "optim/rules.hpp"
#include "rt/runtime_memory.hpp"
#include "rt/submitter.hpp"
#include "storage/engine.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::fit {
namespace {

/// Steps that are submitted, or read, at once.
double steps_ahead(const config::TrainConfig& config) {
  return real(std::min(config.train.run_ahead, config.last_step()));
}

double tokens_of_micro_batch(const train::Run& run) {
  return real(run.config.train.batch) * real(run.model.context + 1) * real(size_of(DType::kI32));
}

/// Those of the steps ahead and of the one that is being submitted, or of validation.
double tokens_read(const train::Run& run) {
  const double step = real(run.config.train.accumulate);
  return tokens_of_micro_batch(run) *
         (steps_ahead(run.config) * step + std::max(step, real(run.config.train.validate_batches)));
}

struct Counts {
  double buffers;
  double tasks_of_step;
  double tasks_of_validation;
  Index buffers_of_task;  ///< of the one with most
};

Counts count(const train::Run& run, const shape::RunShape& shape) {
  const config::TrainConfig& config = run.config;
  const double ranks = real(run.share.ranks);
  const models::RunCounts counts = models::counts(run.model, shape, run.layout);
  const double states = real(optim::states_of_rule(config.optim.rule));
  const double subgroups = real(std::ssize(run.layout.subgroups));
  const double trained = real(run.layout.trained_subgroups());
  std::size_t most_pieces = 0;
  for (const shape::PlacedParameter& parameter : run.layout.parameters)
    most_pieces = std::max(most_pieces, shape::pieces_of(parameter).size());
  // A subgroup: value, working copy; where it is trained gradient and its sum, three scalars,
  // checksums. A rank: two; and losses and norms of steps.
  const double own =
      subgroups * 2 + trained * (6 + states) + 2 * ranks + 2 * steps_ahead(config) + 8;
  // Of a subgroup: square, factor, update, and the sums over ranks. Of a step: norm, loss.
  const double updates = trained * (3 + ranks) + 2 * ranks;
  return {.buffers = real(counts.buffers) + own,
          .tasks_of_step = real(config.train.accumulate) * real(counts.tasks) + updates,
          .tasks_of_validation = real(config.train.validate_batches) * real(counts.tasks),
          .buffers_of_task = 6 + static_cast<Index>(most_pieces)};
}

double runtime_bytes(const train::Run& run, const Counts& counts) {
  const config::TrainConfig& config = run.config;
  const double steps = steps_ahead(config);
  const double tasks = std::max(steps * counts.tasks_of_step, counts.tasks_of_validation);
  const double given = tokens_of_micro_batch(run) * std::max(steps * real(config.train.accumulate),
                                                             real(config.train.validate_batches));
  // One task's arguments are few beside its records.
  constexpr Index kArguments = 512;
  const double all = tasks * real(rt::task_bytes(counts.buffers_of_task, kArguments)) + given;
  // The submitter waits there, for all but a task that is larger.
  const double most =
      real(rt::kMostPendingTasks) * real(rt::kMostBytesATask) + tokens_of_micro_batch(run);
  // A vector that grows has as much room again, and for a moment what it had before.
  const double records = (2 * tasks + std::max(counts.tasks_of_step, counts.tasks_of_validation)) *
                         sizeof(rt::TaskRecord);
  return counts.buffers * real(rt::handle_bytes()) + std::min(all, most) + records;
}

/// Buffers of each checkpoint under way hold no more than the parameters and states that the rank
/// owns; those of copies no more than all of them, which are no fewer. The engine has its own for
/// each device: the node's and, where that fails, the shared one.
double checkpoint_bytes(const train::Run& run) {
  const tensor::Ownership ownership = run.share.ownership();
  const rt::MemoryBytes values =
      tensor::ParameterSet::bytes(run.layout, run.config.parameter_types(), ownership);
  const Index states = optim::state_bytes(run.layout, run.config.optimizer(), ownership);
  const Index buffers =
      checkpoint::Writer::buffers_within(1e9 * run.config.train.checkpoint_memory);
  const double all = real(values[MemoryCategory::kParameters]) + real(states);
  const bool has_two = !run.config.train.checkpoint_local.empty();
  // States on a disk that the checkpoint is not on are copied, by each that is under way.
  const bool may_copy = std::ssize(run.config.disks()) > 1;
  const Index devices = 1 + (has_two ? 1 : 0) + (may_copy ? 1 : 0);
  const double copies =
      may_copy ? real(checkpoint::Writer::kMostUnderWay) * real(checkpoint::RangeCopy::bytes()) : 0;
  return std::min(
             real(checkpoint::Writer::bytes(buffers) + devices * storage::buffer_bytes()) + copies,
             real(checkpoint::Writer::kMostUnderWay) * all) +
         // Of nodes with disks of their own the first rank of each copies, whichever that is.
         (has_two ? std::min(real(checkpoint::Copier::bytes()), all) : 0);
}

}  // namespace

Unregistered estimate_unregistered(const train::Run& run, const shape::RunShape& shape,
                                   Index workers, units::Bytes registered) {
  Unregistered bytes{.tokens = units::Bytes(tokens_read(run)),
                     .runtime = units::Bytes(runtime_bytes(run, count(run, shape))),
                     .program = units::Bytes(real(program_bytes(workers))),
                     .checkpoints = units::Bytes(checkpoint_bytes(run))};
  // The kernel's entry for each page.
  constexpr double kEntryOfByte = 8.0 / 4096;
  bytes.runtime += (registered + bytes.total()) * kEntryOfByte;
  return bytes;
}

}  // namespace dos::fit
