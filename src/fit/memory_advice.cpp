// SPDX-License-Identifier: Apache-2.0
#include "fit/memory_advice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/units.hpp"
#include "fit/estimate.hpp"
#include "sched/policy_registry.hpp"

namespace dos::fit {
namespace {

/// The smallest factor of a number above 1.
Index smallest_factor(Index number) {
  for (Index factor = 2; factor * factor <= number; ++factor)
    if (number % factor == 0) return factor;
  return number;
}

struct Option {
  std::string text;
  config::TrainConfig config;
};

/// Single changes that may make forward and backward lighter.
std::vector<Option> lighter(const config::TrainConfig& config) {
  std::vector<Option> options;
  if (config.activation_plan() != shape::kRecomputeAll) {
    options.push_back({"train.recompute=true", config});
    options.back().config.train.recompute = true;
    options.back().config.train.activations = "keep";
  }
  if (config.train.batch > 1) {
    config::TrainConfig smaller = config;
    const Index parts = smallest_factor(config.train.batch);
    smaller.train.batch /= parts;
    smaller.train.accumulate *= parts;
    smaller.train.lanes = std::min(config.train.lanes, smaller.train.batch);
    options.push_back({fmt::format("train.batch={} with train.accumulate={}", smaller.train.batch,
                                   smaller.train.accumulate),
                       smaller});
  }
  if (config.train.precision == "fp32") {
    options.push_back({"train.precision=bf16", config});
    options.back().config.train.precision = "bf16";
  } else if (config.train.gradient_precision == "fp32") {
    options.push_back({"train.gradient_precision=bf16", config});
    options.back().config.train.gradient_precision = "bf16";
  }
  return options;
}

double largest_total(const RunMemory& memory) {
  double largest = 0;
  for (const planner::MemoryUse& use : memory.devices)
    largest = std::max(largest, use.total().value());
  return largest;
}

/// With the device memory that forward and backward then take, where it is less.
std::vector<std::string> lighter_texts(const train::Run& run, const Room& room) {
  const double now = largest_total(estimate_run(run, room));
  std::vector<std::string> texts;
  for (const Option& option : lighter(run.config)) {
    const double then = largest_total(estimate_run(run.with(option.config), room));
    if (then < now)
      texts.push_back(fmt::format("{} ({})", option.text, format_bytes(static_cast<Index>(then))));
  }
  return texts;
}

/// What takes less for updates. StarPU's own schedulers know neither windows nor residents.
std::vector<std::string> update_texts(const config::TrainConfig& config, Index largest_update,
                                      const std::string& scheduler) {
  std::vector<std::string> texts{
      fmt::format("a sched.subgroup_params below {} (the largest update takes {} there)",
                  config.sched.subgroup_params, format_bytes(largest_update))};
  if (sched::own_policy(scheduler) == nullptr) {
    texts.emplace_back("STARPU_SCHED=dos (which knows what fits)");
    return texts;
  }
  if (config.sched.window != 1)
    texts.emplace_back("sched.window=1 (one update at a time is prefetched)");
  if (config.sched.resident) texts.emplace_back("sched.resident=false (states come and go)");
  return texts;
}

}  // namespace

std::string memory_advice(const train::Run& run, const Room& room, const std::string& scheduler,
                          const std::filesystem::path& out) {
  const bool on_host = room.model_devices() == 0;
  const Index update = update_bytes(run, room);
  std::vector<std::string> options = lighter_texts(run, room);
  std::ranges::move(update_texts(run.config, update, scheduler), std::back_inserter(options));
  if (!on_host)
    options.emplace_back("train.gpu_memory, in GB, below what other programs leave (nvidia-smi)");
  const RunMemory memory = estimate_run(run, room);
  std::string text = fmt::format("use {}\n", fmt::join(options, ", or "));
  std::size_t next = 0;
  for (const Room::Device& device : room.devices)
    text += device.runs_model ? fmt::format("estimate for {}:\n{}\n", device.name,
                                            memory_table(memory.devices[next++]))
                              : fmt::format("estimate for {}:\n  {:<18}{:>12}\n  {:<18}{:>12}\n",
                                            device.name, "largest update", format_bytes(update),
                                            "available", format_bytes(device.bytes));
  return text + fmt::format(
                    "checkpoints that were written are whole: continue with --out {} "
                    "--resume and one of these options",
                    out.string());
}

}  // namespace dos::fit
