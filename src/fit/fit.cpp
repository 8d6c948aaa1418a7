// SPDX-License-Identifier: Apache-2.0
#include "fit/fit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/units.hpp"
#include "fit/activation_fit.hpp"
#include "fit/estimate.hpp"
#include "fit/run_memory.hpp"
#include "fit/stated_limits.hpp"
#include "platform/blas.hpp"
#include "platform/memory_limits.hpp"
#include "rt/device.hpp"
#include "rt/machine_view.hpp"
#include "sched/policy_registry.hpp"
#include "shape/family_shape.hpp"

namespace dos::fit {
namespace {

/// Tokens of a lane above which smaller micro-batches cost little: a product of so many rows does
/// 2048 operations a byte of a BF16 weight; an H100 computes 295 while it reads one.
constexpr Index kEnoughTokens = 2048;

config::TrainConfig with_batch(const config::TrainConfig& config, Index batch) {
  config::TrainConfig changed = config;
  changed.train.accumulate *= config.train.batch / batch;
  changed.train.batch = batch;
  changed.train.lanes = std::min(config.train.lanes, batch);
  return changed;
}

/// The divisors of the batch, largest first.
std::vector<Index> batches(const config::TrainConfig& config) {
  std::vector<Index> sizes;
  const Index batch = config.train.batch;
  for (Index parts = 1; parts * parts <= batch; ++parts) {
    if (batch % parts != 0) continue;
    sizes.push_back(parts);
    if (parts * parts != batch) sizes.push_back(batch / parts);
  }
  std::ranges::sort(sizes, std::greater());
  return sizes;
}

/// All but blocks' inputs computed again.
config::TrainConfig recomputing(const config::TrainConfig& config) {
  config::TrainConfig changed = config;
  changed.train.recompute = true;
  changed.train.activations = "keep";
  return changed;
}

bool is_open(const config::TrainConfig& config) {
  return config.train.activations == "auto";
}

/// Tries configurations of a run.
class Trial {
 public:
  Trial(const train::Run& run, const Room& room) : run_(run), room_(room) {}

  /// With train.activations=auto whether there is a plan that fits.
  [[nodiscard]] bool fits(const config::TrainConfig& config) const {
    return fits(run_.with(config));
  }

  [[nodiscard]] std::optional<config::TrainConfig> with_activations(
      const config::TrainConfig& config) const {
    return fit::with_activations(run_.with(config), room_);
  }

  /// The largest micro-batch that fits, of lanes of at least `tokens`; the batch itself whatever
  /// its lanes have.
  [[nodiscard]] std::optional<config::TrainConfig> smaller(const config::TrainConfig& config,
                                                           Index tokens) const {
    for (const Index batch : batches(config)) {
      const config::TrainConfig changed = with_batch(config, batch);
      const shape::RunShape shape = changed.run_shape(room_.lane_workers());
      const Index shortest = shape.lane_sequences(shape.lanes - 1) * run_.model.context;
      if (batch < config.train.batch && shortest < tokens) continue;
      if (fits(changed)) return changed;
    }
    return std::nullopt;
  }

  /// "model.context=512": the longest context, of halves, that fits; none where a table of
  /// positions has as many rows.
  [[nodiscard]] std::optional<std::string> shorter(const config::TrainConfig& config) const {
    constexpr Index kShortest = 128;
    if (shape::has_position_table(run_.model) && config.model.positions == 0) return std::nullopt;
    train::Run run = run_.with(config);
    run.model.positions = config.model.positions;
    for (Index context = run.model.context / 2; context >= kShortest; context /= 2) {
      run.model.context = run.config.model.context = context;
      if (fits(run)) return fmt::format("model.context={}", context);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool fits(const train::Run& run) const {
    return is_open(run.config) ? fit::with_activations(run, room_).has_value()
                               : estimate_run(run, room_).fits();
  }

  const train::Run& run_;
  const Room& room_;
};

std::string batch_text(const config::TrainConfig& config) {
  return fmt::format("train.batch={} with train.accumulate={}", config.train.batch,
                     config.train.accumulate);
}

/// Single changes that make the run fit.
std::vector<std::string> remedies(const config::TrainConfig& config, const Trial& trial) {
  std::vector<std::string> found;
  config::TrainConfig open = config;
  open.train.activations = "auto";
  if (config.activation_plan().keeps_all() && !is_open(config) && trial.fits(open))
    found.emplace_back("train.activations=auto");
  const config::TrainConfig recomputed = recomputing(config);
  if (config.activation_plan() != shape::kRecomputeAll && trial.fits(recomputed))
    found.emplace_back("train.recompute=true");
  if (const auto smaller = trial.smaller(config, 0)) found.push_back(batch_text(*smaller));
  if (found.empty())
    if (const auto both = trial.smaller(recomputed, 0))
      found.push_back("train.recompute=true and " + batch_text(*both));
  if (const auto context = trial.shorter(config))
    found.push_back(*context);
  else if (const auto least = trial.shorter(recomputed); least && found.empty())
    found.push_back("train.recompute=true and " + *least);
  config::TrainConfig waiting = config;
  waiting.train.run_ahead = 1;
  if (config.train.run_ahead > 1 && trial.fits(waiting)) found.emplace_back("train.run_ahead=1");
  config::TrainConfig narrow = config;
  narrow.train.precision = "bf16";
  if (config.train.precision == "fp32" && trial.fits(narrow))
    found.emplace_back("train.precision=bf16");
  narrow.train.gradient_precision = "bf16";
  if (config.train.precision == "bf16" && trial.fits(narrow))
    found.emplace_back("train.gradient_precision=bf16");
  return found;
}

const planner::MemoryItem& largest(const planner::MemoryUse& use) {
  return *std::ranges::max_element(use.items, {}, &planner::MemoryItem::bytes);
}

/// Where no single change is enough.
const char* last_remedy(MemoryCategory category) {
  if (category == MemoryCategory::kTokensAhead)
    return "a smaller train.accumulate or train.validate_batches";
  if (category == MemoryCategory::kRuntime)
    return "a smaller train.accumulate, fewer train.lanes or a larger sched.subgroup_params";
  if (category == MemoryCategory::kStates)
    return "sched.disks for states that memory has no room for, more ranks, or a smaller model.*";
  if (category == MemoryCategory::kCheckpoints) return "a smaller train.checkpoint_memory";
  return "a smaller model.* or model.context: neither train.recompute nor a smaller train.batch is "
         "enough";
}

[[noreturn]] void fail_to_fit(const train::Run& run, const Room& room) {
  // Where nothing fits, what takes least did not.
  const bool is_least = is_open(run.config);
  const RunMemory memory = estimate_run(is_least ? run.with(recomputing(run.config)) : run, room);
  std::string where = "host memory";
  const planner::MemoryUse* use = &memory.host;
  std::size_t next = 0;
  for (const Room::Device& device : room.devices) {
    if (!device.runs_model) continue;
    const planner::MemoryUse& here = memory.devices[next++];
    if (here.fits()) continue;
    where = "memory on " + device.name;
    use = &here;
    break;
  }
  const std::vector<std::string> helps = remedies(run.config, Trial(run, room));
  const bool is_limited = use == &memory.host && !room.host_limit.empty();
  fail("the run needs {} of {}{}, {} are available{}; {} take most, {}: use {}{}\n{}",
       size_text(use->total()), where,
       is_least ? " even with train.activations=recompute, which takes least" : "",
       size_text(use->available),
       is_limited ? fmt::format(" (limited by {})", room.host_limit) : "",
       name_of(largest(*use).category), size_text(largest(*use).bytes),
       helps.empty() ? last_remedy(largest(*use).category)
                     : fmt::format("{} (train.fit=auto chooses)", fmt::join(helps, ", or ")),
       raised_limit(run, room, *use, /*on_device=*/use != &memory.host), memory_table(*use));
}

/// What a device of `device` bytes has for states, without the model or beside it.
std::string states_line(units::Bytes room, Index subgroup, Index device) {
  const auto count = static_cast<Index>(room.value()) / std::max<Index>(1, subgroup);
  const char* remedy = "";
  if (count == 0) remedy = ": the CPU updates it, or use a smaller sched.subgroup_params";
  if (subgroup > device)
    remedy =
        ": more than the device has: use a smaller sched.subgroup_params, or leave the device out";
  return fmt::format("  left for states of the optimizer: {}; the largest subgroup takes {}{}\n",
                     size_text(room), format_bytes(subgroup), remedy);
}

std::string passing_line(units::Bytes passing) {
  if (!(passing > units::Bytes{0})) return "";
  return fmt::format("  weights that come for the layer at work, and go: {}\n", size_text(passing));
}

/// Where states live, if not all are in host memory, or need not be.
std::string homes_report(const train::Run& run, const Room& room) {
  const offload::HomePlan homes = train::plan_homes(run, room.workers);
  const std::string disks = offload::describe_disks(run.layout, homes);
  const std::string devices = offload::describe_devices(run.layout, homes);
  std::string text;
  if (!disks.empty())
    text = fmt::format("on disks: states of {}\n", disks);
  else if (!run.config.disks().empty())
    text = fmt::format("on disks: nothing, as {} of memory hold all {}states\n",
                       format_bytes(run.state_memory), devices.empty() ? "" : "other ");
  if (!devices.empty()) text += fmt::format("on devices for good: states of {}\n", devices);
  return text;
}

/// Host memory of every rank, if their nodes are like this one.
std::vector<units::Bytes> totals(const train::Run& run, const Room& room) {
  std::vector<units::Bytes> bytes;
  train::Run each = run;
  for (each.share.rank = 0; each.share.rank < run.share.ranks; ++each.share.rank)
    bytes.push_back(estimate_as_is(each, room).host.total());
  return bytes;
}

}  // namespace

std::string Measured::source() const {
  if (!machine.empty()) return "measured, " + machine;
  return link ? "link measured by StarPU, the rest assumed" : "assumed: calibrate measures them";
}

Index Room::model_devices() const {
  return std::ranges::count_if(devices, &Device::runs_model);
}

shape::LaneWorkers Room::lane_workers() const {
  return {model_devices() > 0 ? model_devices() : cpu_workers, /*on_gpus=*/model_devices() > 0};
}

models::WorkerCount Room::worker_count() const {
  return {.all = workers, .cuda = model_devices()};
}

Room room_of(const rt::Session& session) {
  const platform::MemoryLeft left =
      platform::memory_left(session.workers() * platform::blas::kThreadMapping);
  Room room{.host_bytes = left.bytes,
            .host_limit = left.limited_by,
            .workers = session.workers(),
            .cpu_workers = session.cpu_workers(),
            .policy = session.scheduler(),
            .devices = {}};
  const rt::MachineView view = rt::view_machine();
  const auto rate = [&](int from, int to) {
    const auto link = std::ranges::find_if(
        view.links, [&](const auto& each) { return each.from == from && each.to == to; });
    return units::BytesPerSecond(link == view.links.end() ? 0 : link->bytes_per_s);
  };
  for (const rt::Device& device : rt::devices()) {
    if (device.is_cuda && !room.measured.link) {
      const units::BytesPerSecond out = rate(device.node, rt::kHostNode);
      const units::BytesPerSecond in = rate(rt::kHostNode, device.node);
      // Of both at once StarPU knows nothing: no more than of one.
      if (std::min(in, out).value() > 0)
        room.measured.link = planner::CopyRates{.out = out, .in = in, .both = std::max(in, out)};
    }
    if (device.memory_bytes)
      room.devices.push_back(
          {.name = device.name, .bytes = *device.memory_bytes, .runs_model = device.is_cuda});
  }
  return room;
}

namespace {

/// As fit_to(), with what the room allows; nullopt where nothing fits.
std::optional<train::Run> fitted(const train::Run& run, const Room& room) {
  const Trial trial(run, room);
  const auto decided = [&](const config::TrainConfig& config) {
    return run.with(is_open(config) ? *trial.with_activations(config) : config);
  };
  if (trial.fits(run.config)) return decided(run.config);
  if (run.config.train.fit == "auto") {
    if (const auto smaller = trial.smaller(run.config, kEnoughTokens)) return decided(*smaller);
    if (const auto smaller = trial.smaller(recomputing(run.config), 0)) return run.with(*smaller);
  }
  return std::nullopt;
}

Room where_weights_stay(Room room) {
  room.weights_may_pass = false;
  return room;
}

}  // namespace

train::Run fit_to(const train::Run& run, const Room& room) {
  if (run.config.optim.speculate == "on") {
    // What is chosen leaves room for second banks. Where it cannot, choose_ahead() says so.
    train::Run ahead = run;
    ahead.ahead = train::candidates_to_go_ahead(run, room.workers);
    if (auto fitting = fitted(ahead, where_weights_stay(room))) return std::move(*fitting);
  }
  if (auto fitting = fitted(run, where_weights_stay(room))) return std::move(*fitting);
  if (auto fitting = fitted(run, room)) return std::move(*fitting);
  fail_to_fit(run, room);
}

void expect_room_for_updates(const train::Run& run, const Room& room, const std::string& policy) {
  const sched::Policy* own = sched::own_policy(policy);
  if (own == nullptr || !own->uses_gpus) return;
  const Index update = update_bytes(run, room);
  const char* why = run.ahead.empty() ? "" : ", with the second bank of optim.speculate,";
  const char* without = run.ahead.empty() ? "" : "optim.speculate=off, ";
  for (const Room::Device& device : room.devices)
    expect(
        update <= device.bytes,
        "{} has {} of memory, one update of sched.subgroup_params = {}{} needs {}: use {}a "
        "smaller sched.subgroup_params, STARPU_SCHED=zero-offload, or leave the device out ({} = "
        "0)",
        device.name, format_bytes(device.bytes), run.config.sched.subgroup_params, why,
        format_bytes(update), without,
        device.runs_model ? "train.cuda_devices" : "train.opencl_devices");
}

bool needs_dead_activations(const train::Run& run, const Room& room) {
  const units::Bytes update(static_cast<double>(update_bytes(run, room)));
  return std::ranges::any_of(estimate_run(run, room).devices, [&](const planner::MemoryUse& use) {
    return planner::needs_dead_activations(planner::state_memory(use), update);
  });
}

Index update_bytes(const train::Run& run, const Room& room) {
  return largest_update_bytes(run.layout, run.config.parameter_types(), run.config.optimizer(),
                              /*model_on_host=*/room.model_devices() == 0, run.share.ranks,
                              run.ahead);
}

std::string memory_report(const train::Run& run, const Room& room) {
  const ranks::RankShare& share = run.share;
  const RunMemory memory = estimate_run(run, room);
  config::TrainConfig other = recomputing(run.config);
  other.train.recompute = run.config.activation_plan().keeps_all();
  const RunMemory otherwise = estimate_run(run.with(other), room);
  const RunMemory staying = estimate_run(run, where_weights_stay(room));
  const auto table = [&](const planner::MemoryUse& use, const planner::MemoryUse& without) {
    return fmt::format("{}\n  total with train.recompute={}: {}\n{}", memory_table(use),
                       other.train.recompute, size_text(without.total()),
                       use.fits() ? "" : "  DOES NOT FIT\n");
  };
  const std::string owner = share.ranks == 1 ? "the run" : fmt::format("rank {}", share.rank);
  std::string text =
      fmt::format("host memory of {}:\n{}", owner, table(memory.host, otherwise.host));
  if (!room.host_limit.empty()) text += fmt::format("  limited by {}\n", room.host_limit);
  if (share.ranks > 1)
    text += fmt::format("host memory by rank: {}\n", totals_by_rank(totals(run, room)));
  text += homes_report(run, room) + describe_rescue(run, room);
  if (!run.ahead.empty())
    text += fmt::format("ahead of the norm: updates of {} subgroups, with second banks of {}\n",
                        run.ahead.size(), format_bytes(train::bank_bytes(run, run.ahead).total()));
  const Index subgroup = update_bytes(run, room);
  std::size_t next = 0;
  for (const Room::Device& device : room.devices) {
    text += fmt::format("memory of {}:\n", device.name);
    if (!device.runs_model) {
      text += fmt::format("  {:<18}{:>12}\n", "available", format_bytes(device.bytes)) +
              states_line(units::Bytes(static_cast<double>(device.bytes)), subgroup, device.bytes);
      continue;
    }
    const planner::MemoryUse& use = memory.devices[next];
    const units::Bytes passing =
        staying.devices[next].of(MemoryCategory::kWeights) - use.of(MemoryCategory::kWeights);
    const sched::StateMemory states = planner::state_memory(use);
    // Where weights pass, updates have their memory.
    const units::Bytes left = passing > units::Bytes{0} && use.fits()
                                  ? states.update + use.of(MemoryCategory::kWeights)
                                  : states.resident;
    text += table(use, otherwise.devices[next]) + passing_line(passing) +
            states_line(left, subgroup, device.bytes);
    ++next;
  }
  return text;
}

}  // namespace dos::fit
