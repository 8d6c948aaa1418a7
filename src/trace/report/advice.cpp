// SPDX-License-Identifier: Apache-2.0
#include "trace/report/advice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace dos::trace {
namespace {

/// StarPU's own work on a task is some microseconds: a tenth of tasks that are shorter than this.
constexpr double kShortTaskUs = 100;
/// Of all workers' time: less is nothing to change the training for.
constexpr double kSmallPart = 0.01;

// Preconditions. What is not known is not advised.
bool always(const Facts&) {
  return true;
}
bool has_devices(const Facts& f) {
  return f.devices > 0;
}
bool has_cpus(const Facts& f) {
  return f.cpu_workers > 0;
}
bool has_ranks(const Facts& f) {
  return f.ranks > 1;
}
bool another_policy_balances(const Facts& f) {
  return f.devices > 0 && f.policy != "dos";
}
bool share_is_fixed(const Facts& f) {
  return f.devices > 0 && f.policy == "dos" && f.share && *f.share >= 0;
}
bool share_is_planned(const Facts& f) {
  return f.devices > 0 && f.policy == "dos" && !(f.share && *f.share >= 0);
}
bool share_may_grow(const Facts& f) {
  return share_is_planned(f) && f.cpus_update;
}
bool cpu_tasks_are_short(const Facts& f) {
  return f.cpu_task_us < kShortTaskUs;
}
bool updates_are_short(const Facts& f) {
  return f.cpus_update && cpu_tasks_are_short(f) && f.updates > 4 * f.cpu_workers;
}
bool gradients_may_be_bf16(const Facts& f) {
  return f.precision == "bf16" && f.gradient_precision == "fp32";
}
/// Without clipping, updates run where workers now wait for the norm: as much as they take is won.
bool clips(const Facts& f) {
  return f.clip && *f.clip > 0 && f.update_part >= kSmallPart;
}
bool updates_may_go_ahead(const Facts& f) {
  return clips(f) && f.devices_run_model && f.precision == "bf16" && f.speculate == "off";
}
bool runs_a_step_ahead(const Facts& f) {
  return f.run_ahead && *f.run_ahead < 2;
}

std::vector<Remedy> ranks_remedies() {
  return {
      {"dist.zero", Turn::kDown, "share less between ranks (a lower dist.zero)",
       [](const Facts& f) { return f.zero && *f.zero > 1; }},
      {"sched.subgroup_params", Turn::kDown,
       "cut finer, so that messages leave earlier (a smaller sched.subgroup_params)", &always},
      {"train.batch", Turn::kUp, "give each rank more to compute (a larger train.batch)", &always}};
}

std::vector<Remedy> checkpoint_remedies() {
  return {
      {"train.checkpoint_every", Turn::kUp,
       "write checkpoints less often (a larger train.checkpoint_every, or auto)",
       [](const Facts& f) { return f.checkpoint_every && *f.checkpoint_every > 0; }},
      {"train.validate_every", Turn::kUp,
       "validate less often (a larger train.validate_every): each best validation writes a "
       "checkpoint",
       [](const Facts& f) { return f.checkpoint_every && *f.checkpoint_every == 0; }},
      {"train.checkpoint_memory", Turn::kUp,
       "let memory take what the disk has not taken yet (a larger train.checkpoint_memory)",
       &always},
      {"--out", Turn::kSet,
       "write to a faster disk (--out, or train.checkpoint_local and copies of some)", &always}};
}

std::vector<Remedy> smaller_share() {
  return {{"STARPU_SCHED", Turn::kSet, "let STARPU_SCHED=dos share the updates out by their rates",
           &another_policy_balances},
          {"sched.share", Turn::kSet, "leave the share to the scheduler (sched.share=-1)",
           &share_is_fixed},
          {"sched.share", Turn::kDown, "update a smaller share on the device (sched.share)",
           &share_is_planned}};
}

std::vector<Remedy> larger_share() {
  std::vector<Remedy> remedies = smaller_share();
  remedies.back() = {"sched.share", Turn::kUp, "update a larger share on the device (sched.share)",
                     &share_may_grow};
  return remedies;
}

std::vector<Remedy> with(std::vector<Remedy> remedies, const Remedy& another) {
  remedies.push_back(another);
  return remedies;
}

const Remedy kWiderWindow{"sched.window", Turn::kUp,
                          "let more updates onto the device at once (a larger sched.window)",
                          [](const Facts& f) { return f.devices_update; }};
const Remedy kUnclipped{
    "optim.clip", Turn::kSet,
    "let updates start before the global norm is known (optim.clip=0: without clipping)", &clips};
const Remedy kAheadOfNorm{
    "optim.speculate", Turn::kSet,
    "let updates go ahead of the global norm, with the same results (optim.speculate=auto)",
    &updates_may_go_ahead};
const Remedy kFurtherAhead{"train.run_ahead", Turn::kUp, "submit further ahead (train.run_ahead=2)",
                           &runs_a_step_ahead};
const Remedy kShortGradients{"train.gradient_precision", Turn::kSet,
                             "keep gradients in 16 bits (train.gradient_precision=bf16)",
                             &gradients_may_be_bf16};

std::vector<CauseRow> device_rows() {
  return {
      {Cause::kDeviceData,
       "device workers waited for data on their way to the device",
       [](const Facts& f) { return f.devices > 0 && f.bytes_to_devices > 0; },
       {kWiderWindow,
        {"sched.resident", Turn::kSet, "let states stay on the device (sched.resident=true)",
         [](const Facts& f) { return f.devices_update && f.resident == false; }},
        {"sched.subgroup_params", Turn::kDown, "cut finer (a smaller sched.subgroup_params)",
         [](const Facts& f) { return f.devices_update; }}},
       "the model's own data travel: the device's memory or the link limits this run"},
      {Cause::kDeviceHeldBack,
       "device workers stood idle while tasks for them were ready",
       &has_devices,
       {kWiderWindow,
        {"train.gpu_memory", Turn::kUp,
         "let the run use more of the device's memory "
         "(train.gpu_memory)",
         [](const Facts& f) { return f.gpu_memory && *f.gpu_memory > 0; }}},
       "the device ran no updates: look at its tasks in the time line"},
      {Cause::kDeviceCheckpoint,
       "device workers stood idle while updates, or submission, waited for a checkpoint",
       &has_devices, checkpoint_remedies(), ""},
      {Cause::kDeviceRanks,
       "device workers had nothing to do while messages from other ranks were on their way",
       [](const Facts& f) { return f.devices > 0 && f.ranks > 1; }, ranks_remedies(), ""},
      {Cause::kDeviceInUpdate, "device workers had no work while updates ran", &has_devices,
       larger_share(), "all updates ran on devices: see in the time line what they waited for"},
      {Cause::kDeviceOutside,
       "device workers had no work outside the update",
       &has_devices,
       {kFurtherAhead,
        kAheadOfNorm,
        {"optim.clip", Turn::kSet, kUnclipped.text,
         [](const Facts& f) { return f.devices_run_model && clips(f); }},
        {"", Turn::kSet,
         "it runs updates only, and is free while forward and backward run elsewhere",
         [](const Facts& f) { return !f.devices_run_model; }}},
       "see in the time line what it waited for"},
      {Cause::kMovedTwice,
       "moved what had gone that way in the same step",
       [](const Facts& f) { return f.devices > 0 && f.bytes_to_devices + f.bytes_to_host > 0; },
       {{"sched.window", Turn::kDown,
         "let fewer updates onto the device at once (a smaller "
         "sched.window)",
         [](const Facts& f) { return f.devices_update; }},
        {"sched.subgroup_params", Turn::kDown, "cut finer (a smaller sched.subgroup_params)",
         [](const Facts& f) { return f.devices_update; }},
        {"train.batch", Turn::kDown, "take smaller micro-batches (a smaller train.batch)",
         [](const Facts& f) { return f.devices_run_model && f.batch && *f.batch > 1; }}},
       "the device's memory is too small for what runs on it"},
  };
}

CauseRow cpu_held_back_row() {
  return {
      Cause::kCpuHeldBack,
      "CPU workers stood idle while tasks for them were ready",
      &has_cpus,
      {{"train.lanes", Turn::kDown,
        "take one lane a worker (train.lanes=0), so that tasks are longer",
        [](const Facts& f) {
          return f.devices == 0 && f.lanes && *f.lanes > f.cpu_workers && cpu_tasks_are_short(f);
        }},
       {"train.batch", Turn::kUp,
        "make tasks longer: a larger train.batch and as much less train.accumulate",
        [](const Facts& f) { return f.accumulate && *f.accumulate > 1 && cpu_tasks_are_short(f); }},
       {"sched.subgroup_params", Turn::kUp, "make updates longer (a larger sched.subgroup_params)",
        &updates_are_short},
       {"train.workers", Turn::kDown,
        "see whether other programs use these cores (top); if so, take fewer of them "
        "(train.workers)",
        [](const Facts& f) {
          return f.devices == 0 && f.cpu_workers > 1 && !cpu_tasks_are_short(f);
        }},
       {"", Turn::kSet, "see whether other programs use this core (top)",
        [](const Facts& f) {
          return f.devices == 0 && f.cpu_workers == 1 && !cpu_tasks_are_short(f);
        }}},
      "the scheduler or the runtime was late with them: see in the time line when"};
}

std::vector<CauseRow> cpu_rows() {
  return {
      {Cause::kHostData, "CPU workers waited for data on their way back to host memory",
       [](const Facts& f) { return has_cpus(f) && f.devices > 0 && f.bytes_to_host > 0; },
       with(smaller_share(), kShortGradients), ""},
      cpu_held_back_row(),
      {Cause::kCpuCheckpoint,
       "CPU workers stood idle while updates, or submission, waited for a checkpoint", &has_cpus,
       checkpoint_remedies(), ""},
      {Cause::kCpuRanks,
       "CPU workers had nothing to do while messages from other ranks were on their way",
       [](const Facts& f) { return has_cpus(f) && has_ranks(f); }, ranks_remedies(), ""},
      {Cause::kCpuNoWork,
       "CPU workers had no work: nothing was ready",
       &has_cpus,
       {{"train.lanes", Turn::kUp, "cut the micro-batch into a lane a worker (train.lanes=0)",
         [](const Facts& f) {
           return f.devices == 0 && f.lanes && f.batch && *f.lanes < f.cpu_workers &&
                  *f.lanes < *f.batch;
         }},
        {"train.batch", Turn::kUp,
         "take as many sequences as workers (a larger train.batch): a lane has whole ones",
         [](const Facts& f) {
           return f.devices == 0 && f.lanes && f.batch && *f.lanes == *f.batch &&
                  *f.batch < f.cpu_workers;
         }},
        kFurtherAhead,
        kUnclipped},
       "tasks wait for each other's results, at the ends of forward and backward most of all"},
      {Cause::kDram,
       "CPU workers computed updates and norms slower than one alone does: DRAM is shared",
       [](const Facts& f) { return f.cpu_workers * f.ranks > 1; },
       with(larger_share(), kShortGradients), "memory limits the updates here, not the processor"},
      {Cause::kCpuBesideUpdates, "CPU workers had nothing to do while a device updated",
       [](const Facts& f) { return has_cpus(f) && f.devices_update; }, smaller_share(), ""},
      {Cause::kCpuBesideModel,
       "CPU workers had nothing to do while a device ran forward or backward",
       [](const Facts& f) { return has_cpus(f) && f.devices_run_model; },
       {kAheadOfNorm, kUnclipped},
       "the model runs on the device, and updates wait for its gradients"},
  };
}

}  // namespace

const std::vector<CauseRow>& cause_table() {
  static const std::vector<CauseRow> rows = [] {
    std::vector<CauseRow> all = device_rows();
    for (CauseRow& row : cpu_rows()) all.push_back(std::move(row));
    return all;
  }();
  return rows;
}

const CauseRow& row_of(Cause cause) {
  const auto& rows = cause_table();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const CauseRow& row) { return row.cause == cause; });
  require(found != rows.end(), "every cause has a row");
  return *found;
}

std::vector<Advice> advise(const Facts& facts, std::span<const Cause> causes) {
  std::vector<Advice> result;
  std::vector<const Remedy*> given;
  for (const Cause cause : causes) {
    Advice advice{.cause = cause};
    for (const Remedy& remedy : row_of(cause).remedies) {
      if (!remedy.helps(facts)) continue;
      const bool contradicts = std::any_of(given.begin(), given.end(), [&](const Remedy* other) {
        return std::string_view(other->option) == remedy.option && other->turn != remedy.turn;
      });
      if (contradicts)
        advice.withheld = true;
      else
        advice.remedies.push_back(&remedy);
    }
    given.insert(given.end(), advice.remedies.begin(), advice.remedies.end());
    result.push_back(std::move(advice));
  }
  return result;
}

std::string in_words(const Advice& advice) {
  std::string text;
  for (const Remedy* remedy : advice.remedies)
    text += fmt::format("{}{}", text.empty() ? "" : "; or ", remedy->text);
  if (!text.empty()) return text;
  return advice.withheld ? "what would help is the opposite of what is advised above"
                         : row_of(advice.cause).otherwise;
}

}  // namespace dos::trace
