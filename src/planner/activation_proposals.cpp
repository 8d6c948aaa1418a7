// SPDX-License-Identifier: Apache-2.0
#include "planner/activation_proposals.hpp"

#include <algorithm>
#include <limits>

#include "base/real.hpp"
#include "planner/tier_uses.hpp"

namespace dos::planner {
namespace {

using shape::ActivationPlan;
using units::Bytes;

/// Steps between the least and the most of device memory that are tried first, and how often the
/// step around the best of them is halved then.
constexpr Index kSizes = 8;
constexpr int kHalvings = 3;

/// Weighs each plan once.
class Scale {
 public:
  explicit Scale(const WeighPlan& weigh) : weigh_(weigh) {}

  units::Seconds time_of(const ActivationPlan& plan) {
    const auto known = std::ranges::find(seen_, plan, &ActivationChoice::plan);
    if (known != seen_.end()) return known->time;
    const std::optional<units::Seconds> time = weigh_(plan);
    if (time) found_.push_back({plan, *time});
    seen_.push_back({plan, time.value_or(kNever)});
    return seen_.back().time;
  }
  [[nodiscard]] const std::vector<ActivationChoice>& found() const { return found_; }

  static constexpr units::Seconds kNever{std::numeric_limits<double>::infinity()};

 private:
  const WeighPlan& weigh_;
  std::vector<ActivationChoice> seen_;
  std::vector<ActivationChoice> found_;
};

/// A search for the size of device memory, as a part of the way from the least to the most.
class SizeSearch {
 public:
  SizeSearch(const ActivationLimits& limits, const PassModel& passes, Scale& scale)
      : limits_(limits), passes_(passes), scale_(scale) {}

  void run() {
    for (Index size = 0; size <= kSizes; ++size) look_at(real(size) / real(kSizes));
    double step = 1 / real(kSizes);
    for (int halving = 0; halving < kHalvings; ++halving) {
      step /= 2;
      const double centre = best_;
      look_at(centre - step);
      look_at(centre + step);
    }
  }

 private:
  void look_at(double part) {
    if (part < 0 || part > 1) return;
    const Bytes device = limits_.least + (limits_.most - limits_.least) * part;
    for (const Bytes host : limits_.host) {
      const auto choice = choose_activations(passes_, {device, host, limits_.disk});
      if (!choice) continue;
      const units::Seconds time = scale_.time_of(choice->plan);
      if (time >= time_) continue;
      time_ = time;
      best_ = part;
    }
  }

  const ActivationLimits& limits_;
  const PassModel& passes_;
  Scale& scale_;
  double best_ = 0;
  units::Seconds time_ = Scale::kNever;
};

}  // namespace

std::vector<ActivationChoice> weighed_plans(const std::vector<ActivationPlan>& plans,
                                            const std::optional<ActivationLimits>& limits,
                                            const PassModel& passes, const WeighPlan& weigh) {
  Scale scale(weigh);
  for (const ActivationPlan& plan : plans) scale.time_of(plan);
  if (limits) SizeSearch(*limits, passes, scale).run();
  return scale.found();
}

std::vector<ActivationPlan> named_activations(const Request& request) {
  std::vector<ActivationPlan> plans{{}, {.selective = ActivationPlan::kAll}, shape::kRecomputeAll};
  if (request.machine.gpus.value > 0) plans.push_back({.hosted = ActivationPlan::kAll});
  if (!request.machine.tiers.empty()) plans.push_back({.moved = ActivationPlan::kAll});
  return plans;
}

ActivationLimits activation_limits(const Request& request, const Forecast& least,
                                   const PassModel& passes) {
  const Deployment& layout = least.layout;
  const double devices = real(layout.ranks_per_node * layout.devices_per_rank);
  const Bytes none{0};
  ActivationLimits limits;
  limits.least = activation_need(passes, shape::kRecomputeAll).device;
  // What states leave, or could leave where disks take them.
  std::vector<Bytes> free{least.host.available - least.host.total()};
  if (!request.machine.tiers.empty())
    free.push_back(free.front() + least.host.of(MemoryCategory::kStatesWithParameters));
  for (const Bytes each : free) limits.host.push_back(std::max(none, each) / devices);
  if (least.problem.gpus() > 0) {
    PlanSettings settings = request.settings;
    settings.activations = shape::kRecomputeAll;
    const MemoryUse peak =
        gpu_peak(request.model, layout, settings, least.gpu.available, {.gradients = 0});
    limits.most = peak.available - peak.total() + limits.least;
  } else {
    limits.most = limits.host.back() + limits.least;
    limits.host = {none};
  }
  if (!request.machine.tiers.empty())
    limits.disk = std::max(none, room_for_activations(request.machine, least)) / devices;
  return limits;
}

}  // namespace dos::planner
