// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trace/report/analysis.hpp"

namespace dos::trace {
namespace {

constexpr std::size_t kMostLosses = 5;
/// A loss below this part of the time is not worth a line.
constexpr double kSmallest = 0.001;
constexpr double kMicrosInMilli = 1e3;

struct Advice {
  Use use;
  bool on_device;
  const char* what;  ///< follows "GPU workers" or "CPU workers"
  const char* remedy;
};

constexpr Advice kAdvice[] = {
    {Use::kData, true, "waited for data on their way to the device",
     "prefetch more updates at once (sched.window), keep states on the device (sched.resident), or "
     "cut finer (sched.subgroup_params)"},
    {Use::kData, false, "waited for data on their way back to host memory",
     "update a smaller share on the device (sched.share), or keep gradients in 16 bits "
     "(train.gradient_precision = bf16)"},
    {Use::kHeldBack, true, "stood idle while updates for them were ready",
     "let more updates onto the device at once (sched.window), or give StarPU more of its memory"},
    {Use::kHeldBack, false, "stood idle while tasks for them were ready",
     "make tasks larger, so that scheduling weighs less (fewer train.lanes, larger "
     "sched.subgroup_params)"},
    {Use::kCheckpoint, true, "stood idle while a checkpoint was written",
     "write checkpoints less often (train.checkpoint_every) or to a faster disk"},
    {Use::kCheckpoint, false, "stood idle while a checkpoint was written",
     "write checkpoints less often (train.checkpoint_every) or to a faster disk"},
    {Use::kRanks, true, "had nothing to do while messages from other ranks were on their way",
     "share less between ranks (a lower dist.zero), cut finer, so that messages leave earlier "
     "(sched.subgroup_params), or give each rank more to compute (train.batch)"},
    {Use::kRanks, false, "had nothing to do while messages from other ranks were on their way",
     "share less between ranks (a lower dist.zero), cut finer, so that messages leave earlier "
     "(sched.subgroup_params), or give each rank more to compute (train.batch)"},
    {Use::kNoWork, false, "had no work: nothing was ready",
     "cut the micro-batch into more lanes (train.lanes), submit further ahead (train.run_ahead), "
     "or "
     "let updates start before the global norm is known (optim.clip = 0)"},
    {Use::kDram, false, "computed updates and norms slower than one alone does: DRAM is shared",
     "update a larger share on a device (sched.share), or move fewer bytes "
     "(train.gradient_precision = bf16)"},
};

Loss loss_of(const char* what, const char* remedy, double time, const Analysis& analysis,
             double total) {
  const double per_step = time / static_cast<double>(analysis.steps.size());
  return {.what = fmt::format("{}: {:.1f} ms a step", what, per_step / kMicrosInMilli),
          .remedy = remedy,
          .worker_us = per_step,
          .share = time / total};
}

Loss loss_of(const Advice& advice, const Analysis& analysis, double total) {
  double time = 0;
  for (const WorkerUse& worker : analysis.workers)
    if ((worker.kind != "cpu") == advice.on_device) time += worker.of(advice.use);
  const std::string what =
      fmt::format("{} {}", advice.on_device ? "device workers" : "CPU workers", advice.what);
  return loss_of(what.c_str(), advice.remedy, time, analysis, total);
}

/// What has another remedy in the update, where a plan shares work out, than in forward and
/// backward, which the model gives to the devices.
struct SplitAdvice {
  Use use;
  bool on_device;
  double WorkerUse::*in_update;
  const char* what_in_update;
  const char* remedy_in_update;
  const char* what_outside;
  const char* remedy_outside;
};

constexpr SplitAdvice kSplitAdvice[] = {
    {Use::kDevice, false, &WorkerUse::device_in_update,
     "CPU workers had nothing to do while a device updated",
     "update a smaller share on the device: STARPU_SCHED=dos balances it, sched.share sets it",
     "CPU workers had nothing to do while a device ran forward or backward",
     "let updates start before the global norm is known (optim.clip = 0), or take larger "
     "micro-batches, so that the update weighs less"},
    {Use::kNoWork, true, &WorkerUse::no_work_in_update,
     "device workers had no work while updates ran",
     "update a larger share on the device: STARPU_SCHED=dos balances it, sched.share sets it",
     "device workers had no work outside the update",
     "let the device run forward and backward too (train.cuda_devices), or expect no more of it "
     "than updates"},
};

void add_losses(const SplitAdvice& advice, const Analysis& analysis, double total,
                std::vector<Loss>& losses) {
  double in_update = 0;
  double outside = 0;
  for (const WorkerUse& worker : analysis.workers) {
    if ((worker.kind != "cpu") != advice.on_device) continue;
    in_update += worker.*advice.in_update;
    outside += worker.of(advice.use) - worker.*advice.in_update;
  }
  losses.push_back(
      loss_of(advice.what_in_update, advice.remedy_in_update, in_update, analysis, total));
  losses.push_back(loss_of(advice.what_outside, advice.remedy_outside, outside, analysis, total));
}

/// Time that a link spent on buffers that had gone the same way in the same step: evicted between.
/// It is no worker's time, and counted as if the device had waited for it.
Loss loss_of(const LinkUse& link, const Analysis& analysis, double total) {
  const double rate = link.peak > 0 ? link.peak : link.bytes_per_s();
  const double time = rate > 0 ? static_cast<double>(link.repeated_bytes) / rate * 1e6 : 0;
  const auto steps = static_cast<double>(analysis.steps.size());
  return {.what = fmt::format("{} moved {:.1f} MB a step that had gone that way in the same step",
                              link.name, static_cast<double>(link.repeated_bytes) / 1e6 / steps),
          .remedy =
              "memory of the device is too small for what is prefetched: lower sched.window "
              "or sched.subgroup_params",
          .worker_us = time / steps,
          .share = time / total};
}

}  // namespace

std::vector<Loss> find_losses(const Analysis& analysis) {
  double total = 0;
  for (const WorkerUse& worker : analysis.workers)
    for (const double each : worker.time) total += each;
  if (total <= 0) return {};
  std::vector<Loss> losses;
  for (const Advice& advice : kAdvice) losses.push_back(loss_of(advice, analysis, total));
  for (const SplitAdvice& advice : kSplitAdvice) add_losses(advice, analysis, total, losses);
  for (const LinkUse& link : analysis.links) losses.push_back(loss_of(link, analysis, total));
  std::erase_if(losses, [](const Loss& loss) { return loss.share < kSmallest; });
  std::stable_sort(losses.begin(), losses.end(),
                   [](const Loss& a, const Loss& b) { return a.worker_us > b.worker_us; });
  if (losses.size() > kMostLosses) losses.resize(kMostLosses);
  return losses;
}

}  // namespace dos::trace
