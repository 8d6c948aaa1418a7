// SPDX-License-Identifier: Apache-2.0
#include "fit/activation_fit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/real.hpp"
#include "base/units.hpp"
#include "fit/estimate.hpp"
#include "fit/spare_memory.hpp"
#include "fit/update_times.hpp"
#include "offload/home_plan.hpp"
#include "optim/rules.hpp"
#include "planner/activation_choice.hpp"
#include "planner/activation_proposals.hpp"
#include "planner/activation_use.hpp"
#include "shape/model.hpp"
#include "shape/trained_groups.hpp"

namespace dos::fit {
namespace {

using units::Bytes;

// Products of one core with AVX2, and of a large GPU, by type; its memory.
constexpr units::FlopsPerSecond kCore{100e9};
constexpr units::FlopsPerSecond kGpuFp32{60e12};
constexpr units::FlopsPerSecond kGpuBf16{400e12};
constexpr units::BytesPerSecond kGpuMemory{2e12};
// PCIe 3.0; memory of one core and of a host; an SSD on SATA.
constexpr units::BytesPerSecond kLink{12e9};
constexpr units::BytesPerSecond kCoreMemory{10e9};
constexpr units::BytesPerSecond kHostMemory{20e9};
constexpr units::BytesPerSecond kDisk{0.5e9};

/// As planner::traffic_beside_activations(), of a micro-batch of this run.
planner::DiskLoad traffic_beside_activations(const train::Run& run, const Room& room) {
  const config::TrainConfig& config = run.config;
  if (!(room.shared.states + room.shared.checkpoints > 0)) return {};
  const tensor::Ownership ownership = run.share.ownership();
  const offload::HomePlan homes = train::plan_homes(choose_homes(run, room), room.workers);
  const auto bytes_of = [&](Index subgroup) {
    return real(run.layout.subgroups[static_cast<std::size_t>(subgroup)].count *
                size_of(DType::kF32));
  };
  double away = 0;
  for (const Index subgroup : homes.on_disks()) away += bytes_of(subgroup) * real(homes.buffers());
  double saved = 0;
  for (Index i = 0; i < std::ssize(run.layout.subgroups); ++i)
    if (run.layout.subgroups[static_cast<std::size_t>(i)].trained && ownership.owns(i))
      saved += bytes_of(i) * real(1 + optim::states_of_rule(config.optim.rule));
  const double parts = real(std::max<Index>(1, room.model_devices()) * config.train.accumulate);
  const Bytes states(std::min(away, real(homes.memory())) * room.shared.states / parts);
  planner::DiskLoad traffic{.read = states, .written = states};
  // Where both lie on one disk, checkpoints take files of states as they are, and copy others.
  if (const Index every = config.train.checkpoint_every; every > 0)
    traffic.written += Bytes((saved - std::min(1.0, room.shared.states) * away) *
                             room.shared.checkpoints / (real(every) * parts));
  return traffic;
}

/// The model of a run, for times of one device.
class Times {
 public:
  Times(const train::Run& run, const Room& room)
      : model_(shape::model_of("", run.model)),
        devices_(room.model_devices()),
        passes_(marked(run), pass_rates(run.config, room), real(tokens(run, room)),
                run.config.parameter_types().working) {
    passes_.share_disks(traffic_beside_activations(run, room));
  }
  Times(const Times&) = delete;
  Times& operator=(const Times&) = delete;

  [[nodiscard]] const planner::PassModel& passes() const { return passes_; }
  [[nodiscard]] double parts() const { return real(std::max<Index>(1, devices_)); }

 private:
  const shape::Model& marked(const train::Run& run) {
    shape::mark_trained(run.config.trained_groups(), model_.parameters);
    return model_;
  }

  [[nodiscard]] Index tokens(const train::Run& run, const Room& room) const {
    const shape::RunShape shape = run.config.run_shape(room.lane_workers());
    return run.model.context * (devices_ == 0 ? shape.batch : device_part(shape, devices_).batch);
  }

  shape::Model model_;
  Index devices_;
  planner::PassModel passes_;
};

/// By how much the host and the fullest device lack memory.
struct Lack {
  Bytes host;
  Bytes device;
};
Lack lack_of(const RunMemory& memory) {
  const auto lack = [](const planner::MemoryUse& use) {
    return std::max(Bytes{0}, use.total() - use.available);
  };
  Lack result{.host = lack(memory.host), .device = Bytes{0}};
  for (const planner::MemoryUse& use : memory.devices)
    result.device = std::max(result.device, lack(use));
  return result;
}

/// The run with one plan or another.
class PlanTrial {
 public:
  PlanTrial(const train::Run& run, const Room& room) : run_(run), room_(room) {}

  [[nodiscard]] config::TrainConfig with(const shape::ActivationPlan& plan) const {
    config::TrainConfig config = run_.config;
    config.train.activations = shape::activation_plan_text(plan, run_.model.layers);
    return config;
  }
  [[nodiscard]] RunMemory memory(const shape::ActivationPlan& plan) const {
    return estimate_run(run_.with(with(plan)), room_);
  }
  [[nodiscard]] train::Run run(const shape::ActivationPlan& plan) const {
    return run_.with(with(plan));
  }

 private:
  const train::Run& run_;
  const Room& room_;
};

/// What a device has for activations beside the rest of the run, as the run itself would leave it.
planner::ActivationRoom room_for(const train::Run& run, const Room& room, const Times& times,
                                 const RunMemory& memory) {
  const planner::ActivationRoom need =
      planner::activation_need(times.passes(), run.config.activation_plan());
  const auto left = [&](const planner::MemoryUse& use) {
    return use.available - use.total() + need.device;
  };
  planner::ActivationRoom result{.device = left(memory.host)};
  if (!memory.devices.empty()) {
    result.device = left(memory.devices.front());
    for (const planner::MemoryUse& use : memory.devices)
      result.device = std::min(result.device, left(use));
    result.host = (memory.host.available - memory.host.total()) / times.parts() + need.host;
  }
  if (!run.config.activation_disks().empty()) result.disk = room.disk / times.parts();
  return result;
}

/// The best plan of those that fit; nullopt where the estimates near the limit leave none.
std::optional<shape::ActivationPlan> searched(const PlanTrial& trial, const Times& times,
                                              const Room& room) {
  // Records of buffers and tasks differ from plan to plan: what they exceed is taken away.
  constexpr int kTrials = 16;
  planner::ActivationRoom limits =
      room_for(trial.run(shape::kRecomputeAll), room, times, trial.memory(shape::kRecomputeAll));
  for (int i = 0; i < kTrials; ++i) {
    const auto choice = planner::choose_activations(times.passes(), limits);
    if (!choice) break;
    const RunMemory memory = trial.memory(choice->plan);
    if (memory.fits()) return choice->plan;
    const Lack lack = lack_of(memory);
    limits.device -= memory.devices.empty() ? lack.host : lack.device;
    limits.host -= lack.host / times.parts();
  }
  return std::nullopt;
}

/// Plans that are worth a look wherever states are, that which computes all again among them.
std::vector<shape::ActivationPlan> candidates(const PlanTrial& trial, const Times& times,
                                              const Room& room) {
  std::vector<shape::ActivationPlan> plans{
      {}, shape::kRecomputeAll, {.selective = shape::ActivationPlan::kAll}};
  if (room.model_devices() > 0) plans.push_back({.hosted = shape::ActivationPlan::kAll});
  if (!trial.run(shape::kRecomputeAll).config.activation_disks().empty())
    plans.push_back({.moved = shape::ActivationPlan::kAll});
  if (const auto best = searched(trial, times, room)) plans.push_back(*best);
  return plans;
}

planner::ActivationLimits limits_of(const PlanTrial& trial, const Times& times, const Room& room) {
  const planner::ActivationRoom most =
      room_for(trial.run(shape::kRecomputeAll), room, times, trial.memory(shape::kRecomputeAll));
  return {.most = most.device,
          .least = planner::activation_need(times.passes(), shape::kRecomputeAll).device,
          .host = {most.host},
          .disk = most.disk};
}

}  // namespace

planner::PassRates pass_rates(const config::TrainConfig& config, const Room& room) {
  const bool is_narrow = config.parameter_types().working != DType::kF32;
  const Measured& known = room.measured;
  planner::PassRates rates{.compute = kCore * real(room.cpu_workers),
                           .memory = kCoreMemory * real(room.cpu_workers),
                           .link = std::nullopt,
                           .disk = std::nullopt,
                           .dram = kCoreMemory * real(room.cpu_workers)};
  if (const Index devices = room.model_devices(); devices > 0) {
    rates.compute = is_narrow ? kGpuBf16 : kGpuFp32;
    rates.memory = kGpuMemory;
    rates.link = known.link.value_or(planner::CopyRates{kLink, kLink, kLink});
    rates.dram = known.dram.value_or(kHostMemory) / real(devices);
  } else if (known.dram) {
    rates.memory = rates.dram = *known.dram;
  }
  rates.compute = known.compute.value_or(rates.compute);
  const double parts = real(std::max<Index>(1, room.model_devices()));
  if (const double disks = real(std::ssize(config.activation_disks())); disks > 0) {
    rates.disk = known.disk.value_or(planner::DiskRates{kDisk * disks, kDisk * disks});
    rates.disk->write = rates.disk->write / parts;
    rates.disk->read = rates.disk->read / parts;
    if (rates.disk->both) rates.disk->both = *rates.disk->both / parts;
  }
  return rates;
}

std::optional<config::TrainConfig> with_activations(const train::Run& run, const Room& room) {
  const PlanTrial trial(run, room);
  const UpdateTimes updates(run, room);
  if (!updates.depend_on_activations() && trial.memory({}).fits()) return trial.with({});
  if (!trial.memory(shape::kRecomputeAll).fits()) return std::nullopt;
  const Times times(run, room);
  const auto weigh = [&](const shape::ActivationPlan& plan) -> std::optional<units::Seconds> {
    if (planner::activation_need(times.passes(), plan).disk > room.disk / times.parts() ||
        !trial.memory(plan).fits())
      return std::nullopt;
    const planner::PhaseTimes phases = times.passes().times(plan);
    return (phases.forward + phases.backward) * real(run.config.train.accumulate) +
           updates.added(plan);
  };
  std::optional<planner::ActivationLimits> limits;
  if (updates.depend_on_activations()) limits = limits_of(trial, times, room);
  const std::vector<planner::ActivationChoice> choices =
      planner::weighed_plans(candidates(trial, times, room), limits, times.passes(), weigh);
  return trial.with(choices[planner::preferred(times.passes(), choices)].plan);
}

std::string describe_activations(const train::Run& run, const Room& room) {
  const Times times(run, room);
  const shape::ActivationPlan plan = run.config.activation_plan();
  const planner::ActivationRoom need = planner::activation_need(times.passes(), plan);
  const planner::PhaseTimes phases = times.passes().times(plan);
  const planner::PassRates rates = pass_rates(run.config, room);
  const auto all = [&](Bytes bytes) { return size_text(bytes * times.parts()); };
  std::string text = fmt::format(
      "{}: blocks keep {}", shape::activation_plan_text(plan, run.model.layers), all(need.device));
  if (need.host > Bytes{0}) text += fmt::format(", {} go to host memory", all(need.host));
  if (need.disk > Bytes{0}) text += fmt::format(", {} to disks", all(need.disk));
  text += fmt::format("; forward and backward of a micro-batch {:.3g} s",
                      (phases.forward + phases.backward).value());
  if (phases.moving > units::Seconds{0})
    text += fmt::format(", {:.2g} s of it waiting for moves", phases.moving.value());
  if (const UpdateTimes updates(run, room); updates.depend_on_activations())
    text += fmt::format(", the update {:.3g} s", updates.of(plan).value());
  std::vector<std::string> known{fmt::format("{:.3g} GFLOP/s", rates.compute.value() / 1e9)};
  if (rates.link) known.push_back(fmt::format("link {:.3g} GB/s", rates.link->out.value() / 1e9));
  if (rates.disk)
    known.push_back(fmt::format("disk {}{}{:.3g} GB/s", room.measured.disks,
                                room.measured.disks.empty() ? "" : " ",
                                rates.disk->write.value() / 1e9));
  return text + fmt::format(", by {} ({})", fmt::join(known, ", "), room.measured.source());
}

Index activations_on_disks(const train::Run& run, const Room& room) {
  const Times times(run, room);
  const Bytes moved =
      planner::activation_need(times.passes(), run.config.activation_plan()).disk * times.parts();
  return static_cast<Index>(moved.value());
}

std::string describe_rescue(const train::Run& run, const Room& room) {
  const Bytes moved(real(activations_on_disks(run, room)));
  if (!(moved > Bytes{0})) return "";
  std::string text = fmt::format("activations on disks: {}", size_text(moved));
  if (const auto& spare = run.spare_memory)
    text += fmt::format("; of what a disk takes no more {} stay in memory for a step, {}",
                        size_text(std::min(moved, Bytes(real(*spare)))),
                        moved > Bytes(real(*spare)) ? "beyond which the run ends" : "all of it");
  return text + "\n";
}

std::string explain_activations(const train::Run& run, const Room& room) {
  const Times times(run, room);
  const shape::ActivationPlan plan = run.config.activation_plan();
  return fmt::format("activations of a micro-batch on one device: {}, forecast by rates ({})\n{}",
                     shape::activation_plan_text(plan, run.model.layers), room.measured.source(),
                     planner::activation_text(planner::activation_uses(times.passes(), plan)));
}

}  // namespace dos::fit
