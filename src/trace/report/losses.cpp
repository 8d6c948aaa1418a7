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

/// A cause of which all of a kind of worker's time of a use is counted.
struct WholeUse {
  Cause cause;
  Use use;
  bool on_device;
};
constexpr WholeUse kWholeUses[] = {
    {Cause::kDeviceData, Use::kData, true},
    {Cause::kHostData, Use::kData, false},
    {Cause::kDeviceHeldBack, Use::kHeldBack, true},
    {Cause::kCpuHeldBack, Use::kHeldBack, false},
    {Cause::kDeviceCheckpoint, Use::kCheckpoint, true},
    {Cause::kCpuCheckpoint, Use::kCheckpoint, false},
    {Cause::kDeviceRanks, Use::kRanks, true},
    {Cause::kCpuRanks, Use::kRanks, false},
    {Cause::kCpuNoWork, Use::kNoWork, false},
    {Cause::kDram, Use::kDram, false},
};

/// A use that has other remedies in the update, where a plan shares work out, than in forward and
/// backward, which the model gives to the devices.
struct SplitUse {
  Use use;
  bool on_device;
  double WorkerUse::*in_update;
  Cause cause_in_update;
  Cause cause_outside;
};
constexpr SplitUse kSplitUses[] = {
    {Use::kDevice, false, &WorkerUse::device_in_update, Cause::kCpuBesideUpdates,
     Cause::kCpuBesideModel},
    {Use::kNoWork, true, &WorkerUse::no_work_in_update, Cause::kDeviceInUpdate,
     Cause::kDeviceOutside},
};

Loss loss_of(Cause cause, Use use, double time, const Analysis& analysis, double total) {
  const double per_step = time / static_cast<double>(analysis.steps.size());
  return {
      .cause = cause,
      .use = use,
      .what = fmt::format("{}: {:.1f} ms a step", row_of(cause).what, per_step / kMicrosInMilli),
      .remedy = "",
      .worker_us = per_step,
      .share = time / total};
}

std::vector<Loss> losses_of_workers(const Analysis& analysis, double total) {
  std::vector<Loss> losses;
  const auto sum = [&](bool on_device, auto time_of) {
    double time = 0;
    for (const WorkerUse& worker : analysis.workers)
      if ((worker.kind != "cpu") == on_device) time += time_of(worker);
    return time;
  };
  for (const WholeUse& each : kWholeUses)
    losses.push_back(
        loss_of(each.cause, each.use,
                sum(each.on_device, [&](const WorkerUse& worker) { return worker.of(each.use); }),
                analysis, total));
  for (const SplitUse& each : kSplitUses) {
    const double all =
        sum(each.on_device, [&](const WorkerUse& worker) { return worker.of(each.use); });
    const double in_update =
        sum(each.on_device, [&](const WorkerUse& worker) { return worker.*each.in_update; });
    losses.push_back(loss_of(each.cause_in_update, each.use, in_update, analysis, total));
    losses.push_back(loss_of(each.cause_outside, each.use, all - in_update, analysis, total));
  }
  return losses;
}

/// Time that a link spent on buffers that had gone the same way in the same step: evicted between.
/// It is no worker's time, and counted as if the device had waited for it.
Loss loss_of(const LinkUse& link, const Analysis& analysis, double total) {
  const double rate = link.peak > 0 ? link.peak : link.bytes_per_s();
  const double time = rate > 0 ? static_cast<double>(link.repeated_bytes) / rate * 1e6 : 0;
  const auto steps = static_cast<double>(analysis.steps.size());
  return {.cause = Cause::kMovedTwice,
          .what = fmt::format("{} {}: {:.1f} MB a step", link.name, row_of(Cause::kMovedTwice).what,
                              static_cast<double>(link.repeated_bytes) / 1e6 / steps),
          .remedy = "",
          .worker_us = time / steps,
          .share = time / total};
}

}  // namespace

std::vector<Loss> find_losses(const Analysis& analysis, const Facts& facts) {
  double total = 0;
  for (const WorkerUse& worker : analysis.workers)
    for (const double each : worker.time) total += each;
  if (total <= 0) return {};
  std::vector<Loss> losses = losses_of_workers(analysis, total);
  for (const LinkUse& link : analysis.links) losses.push_back(loss_of(link, analysis, total));
  std::erase_if(losses, [&](const Loss& loss) {
    return loss.share < kSmallest || !row_of(loss.cause).possible(facts);
  });
  std::stable_sort(losses.begin(), losses.end(),
                   [](const Loss& a, const Loss& b) { return a.worker_us > b.worker_us; });
  if (losses.size() > kMostLosses) losses.resize(kMostLosses);
  std::vector<Cause> causes;
  for (const Loss& loss : losses) causes.push_back(loss.cause);
  const std::vector<Advice> advice = advise(facts, causes);
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i].remedy = in_words(advice[i]);
  return losses;
}

}  // namespace dos::trace
