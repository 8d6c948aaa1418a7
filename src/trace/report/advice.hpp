// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace dos::trace {

struct Analysis;
struct Trace;

/// Why workers' time did not go into computing, as the report ranks it.
enum class Cause {
  kDeviceData,        ///< a device waited for copies to it
  kHostData,          ///< a CPU worker waited for copies to host memory
  kDeviceHeldBack,    ///< a device was idle though tasks for it were ready
  kCpuHeldBack,       ///< likewise a CPU worker
  kDeviceCheckpoint,  ///< a device was idle while an update or submission waited for a checkpoint
  kCpuCheckpoint,     ///< likewise a CPU worker
  kDeviceRanks,       ///< a device was idle while a message was on its way
  kCpuRanks,          ///< likewise a CPU worker
  kCpuNoWork,         ///< nothing was ready for a CPU worker
  kDram,              ///< CPU workers slowed each other
  kCpuBesideUpdates,  ///< a CPU worker was idle while a device updated
  kCpuBesideModel,    ///< a CPU worker was idle while a device ran forward or backward
  kDeviceInUpdate,    ///< a device had no work while updates ran
  kDeviceOutside,     ///< a device had no work outside the update
  kMovedTwice,        ///< a link carried what it had carried in the same step
};

/// What a run had and could have done: what advice depends on. Values of the configuration are
/// unknown where the trace does not tell them.
struct Facts {
  Index cpu_workers = 0;  ///< of a rank
  Index devices = 0;      ///< of a rank: its workers that are no CPU
  Index ranks = 1;
  Index bytes_to_devices = 0;
  Index bytes_to_host = 0;
  bool devices_run_model = false;  ///< forward or backward ran on one
  bool devices_update = false;     ///< an update ran on one
  bool cpus_update = false;        ///< an update ran on a CPU worker
  double cpu_task_us = 0;          ///< mean duration of a task of a CPU worker
  Index updates = 0;               ///< of a rank in a step
  double update_part = 0;          ///< of all workers' time
  std::string policy;
  std::optional<Index> batch{};
  std::optional<Index> lanes{};
  std::optional<Index> accumulate{};
  std::optional<Index> run_ahead{};
  std::optional<Index> checkpoint_every{};
  std::optional<Index> zero{};
  std::optional<double> clip{};
  std::optional<double> share{};       ///< sched.share; -1: the policy's choice
  std::optional<double> gpu_memory{};  ///< train.gpu_memory; 0: no limit
  std::optional<bool> resident{};      ///< sched.resident
  std::optional<std::string> precision{};
  std::optional<std::string> gradient_precision{};
  std::optional<std::string> speculate{};  ///< optim.speculate
};

Facts facts_of(const Trace& trace, const Analysis& analysis);

enum class Turn { kUp, kDown, kSet };

/// Something that could be done about a cause.
struct Remedy {
  const char* option;  ///< that is to be turned
  Turn turn;
  const char* text;
  bool (*helps)(const Facts& facts);  ///< the precondition: whether this run could have done it
};

/// What there is to be said of a cause.
struct CauseRow {
  Cause cause;
  const char* what;                      ///< what the workers, or the link, did
  bool (*possible)(const Facts& facts);  ///< whether this run can have lost time to it
  std::vector<Remedy> remedies;
  const char* otherwise;  ///< where no remedy helps
};

/// All of them: one row a cause.
const std::vector<CauseRow>& cause_table();
const CauseRow& row_of(Cause cause);

/// What to try against a cause.
struct Advice {
  Cause cause;
  std::vector<const Remedy*> remedies{};
  bool withheld = false;  ///< a remedy would have turned an option against one before
};

/// What to try against each of the causes, given in order of weight: the remedies that this run
/// could have used, without those that turn an option against a remedy before them.
std::vector<Advice> advise(const Facts& facts, std::span<const Cause> causes);

/// The remedies, or what there is to say without one.
std::string in_words(const Advice& advice);

}  // namespace dos::trace
