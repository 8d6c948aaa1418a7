// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/device_rates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dos::sched_starpu {
namespace {

/// One direction as StarPU has measured it; what both do at once, and beside the CPU's updates, as
/// calibrate has, where that is less.
perfmodels::GpuRates with_link(const Surroundings::Gpu& gpu,
                               const std::optional<perfmodels::GpuRates>& measured) {
  const units::BytesPerSecond both = gpu.h2d + gpu.d2h;
  perfmodels::GpuRates rates{.update = {},
                             .h2d = gpu.h2d,
                             .d2h = gpu.d2h,
                             .both = both,
                             .h2d_cpu_busy = gpu.h2d,
                             .d2h_cpu_busy = gpu.d2h,
                             .both_cpu_busy = both};
  if (!measured) return rates;
  rates.both = std::min(both, measured->both);
  rates.h2d_cpu_busy = std::min(gpu.h2d, measured->h2d_cpu_busy);
  rates.d2h_cpu_busy = std::min(gpu.d2h, measured->d2h_cpu_busy);
  rates.both_cpu_busy = std::min(rates.both, measured->both_cpu_busy);
  return rates;
}

}  // namespace

DeviceRates::DeviceRates(Surroundings around, bool uses_gpus, const Tuning& tuning)
    : tuning_(tuning),
      around_(std::move(around)),
      uses_gpus_(uses_gpus),
      rates_(1 + around_.gpus.size(), LearnedRate(tuning, Tuning::ends_together)),
      others_(around_.gpus.size()) {
  rates_.front() = LearnedRate(tuning);
}

void DeviceRates::suggest(Index params, Device device, units::Seconds time) {
  if (time.value() > 0 && params > 0) rates_[device.number()].suggest(params_of(params) / time);
}

void DeviceRates::see(Index params, Device device, units::Seconds time, bool settles_in) {
  if (!(time.value() > 0) || params == 0) return;
  LearnedRate& rate = rates_[device.number()];
  settles_in ? rate.glimpse(params_of(params) / time) : rate.see(params_of(params), time);
}

void DeviceRates::see_other(Device gpu, units::Seconds time) {
  others_[static_cast<std::size_t>(gpu.gpu)].beside.add(time);
}

void DeviceRates::see_forward(Device gpu, units::Seconds time) {
  others_[static_cast<std::size_t>(gpu.gpu)].behind.add(time);
}

// While a task is at work the link brings as many updates as may then run one after another: but no
// more are wanted than the CPU leaves of those that come meanwhile.
units::Seconds DeviceRates::wait_for(const Tasks& other, std::size_t gpu,
                                     units::Params params) const {
  if (!(other.time.value() > 0) || !are_known()) return units::Seconds(0);
  const units::ParamsPerSecond come = params / other.time;
  const units::ParamsPerSecond by_cpu = planned({}) * static_cast<double>(around_.cpu_workers);
  const units::ParamsPerSecond by_link = around_.gpus[gpu].h2d / cost_.streamed_in();
  const double left = (come - by_cpu) / (by_link * static_cast<double>(around_.gpus.size()));
  return other.at_work() * std::clamp(left, 0.0, 1.0);
}

bool DeviceRates::has_room_beside_forward(std::size_t gpu, units::Bytes bytes) const {
  const sched::StateMemory& memory = around_.gpus[gpu].memory;
  return !(std::min(memory.update, memory.resident - memory.gradients) < bytes);
}

void DeviceRates::begin_step(Beside beside, units::Params params, units::Params largest) {
  for (std::size_t gpu = 0; gpu < others_.size(); ++gpu) {
    OtherWork& other = others_[gpu];
    const auto updates = static_cast<double>(beside == Beside::kForward ? tuning_.least_beside
                                                                        : tuning_.least_ahead);
    const bool has_room = has_room_beside_forward(gpu, largest * cost_.held() * updates);
    const Tasks& next = beside == Beside::kForward ? other.beside : other.behind;
    const bool plans_forward = beside != Beside::kBoth && has_room;
    const bool waits = beside == Beside::kBackward || plans_forward;
    const units::Seconds wait = waits ? wait_for(other.beside, gpu, params) : units::Seconds(0);
    const units::Seconds forward = plans_forward ? next.time : units::Seconds(0);
    const auto changes = [this](units::Seconds from, units::Seconds to) {
      return std::abs((to - from).value()) > tuning_.wait_change * std::max(from, to).value();
    };
    if (changes(other.forward, forward)) {
      other.forward = forward;
      other.tasks = forward.value() > 0 ? std::llround(forward / next.at_work()) : 0;
    }
    if (changes(other.wait, wait)) other.wait = wait;
    other.beside = {};
    other.behind = {};
  }
}

std::vector<units::Seconds> DeviceRates::forward() const {
  if (others_.empty()) return {};
  const OtherWork& longest = std::ranges::max(others_, {}, &OtherWork::forward);
  if (!(longest.forward.value() > 0)) return {};
  const auto tasks = static_cast<double>(longest.tasks);
  return std::vector(static_cast<std::size_t>(longest.tasks), longest.forward / tasks);
}

void DeviceRates::read_memory() {
  if (!around_.read_memory) return;
  for (std::size_t gpu = 0; gpu < around_.gpus.size(); ++gpu)
    around_.gpus[gpu].memory = around_.read_memory(static_cast<Index>(gpu));
}

Device DeviceRates::probe(Index index) const {
  const Index gpus = std::ssize(around_.gpus);
  if (!uses_gpus_ || index >= tuning_.probes * gpus) return {};
  const Device gpu{.gpu = index % gpus};
  return of(gpu).is_suggested() ? Device{} : gpu;
}

bool DeviceRates::are_known() const {
  return std::ranges::all_of(rates_.begin(), uses_gpus_ ? rates_.end() : rates_.begin() + 1,
                             [](const LearnedRate& rate) { return rate.value().has_value(); });
}

units::ParamsPerSecond DeviceRates::planned(Device device) const {
  return of(device).value().value_or(*of({}).value() * tuning_.unknown_gpu);
}

perfmodels::Rates DeviceRates::for_plan(const sched::UpdateCost& cost) const {
  perfmodels::Rates rates;
  rates.cpu_workers = around_.cpu_workers;
  rates.cpu_worker = planned({});
  rates.cpu_update = rates.cpu_worker * static_cast<double>(around_.cpu_workers);
  rates.transfer_latency = around_.transfer_latency;
  rates.task_latency = of({}).overhead();
  units::BytesPerSecond links{0};
  for (const Surroundings::Gpu& gpu : around_.gpus) {
    rates.gpus.push_back(with_link(gpu, around_.measured_link));
    rates.gpus.back().update = planned({.gpu = std::ssize(rates.gpus) - 1});
    rates.gpus.back().wait = others_[rates.gpus.size() - 1].wait;
    links += gpu.h2d + gpu.d2h;
  }
  // Nobody tells a policy what DRAM can do: enough for all at once, so that it does not limit.
  rates.dram = rates.cpu_update * cost.cpu_traffic + links;
  return rates;
}

bool DeviceRates::have_changed_since(const perfmodels::Rates& then) const {
  for (Index gpu = -1; gpu < std::ssize(around_.gpus); ++gpu) {
    const Device device{.gpu = gpu};
    if (std::abs(planned(device) / rate_in(then, device) - 1) > tuning_.rate_change) return true;
    if (gpu >= 0 && others_[static_cast<std::size_t>(gpu)].wait !=
                        then.gpus[static_cast<std::size_t>(gpu)].wait)
      return true;
  }
  return false;
}

std::optional<units::Seconds> DeviceRates::expected(Index params, Device device, Stay stay) const {
  const std::optional<units::ParamsPerSecond>& rate = of(device).value();
  return rate ? std::optional(time_at(*rate, params, device, stay)) : std::nullopt;
}

units::Seconds DeviceRates::time_at(units::ParamsPerSecond rate, Index params, Device device,
                                    Stay stay) const {
  const units::Params size = params_of(params);
  const units::Seconds kernel = of(device).overhead() + size / rate;
  if (device.is_cpu()) return kernel;
  const auto in = stay == Stay::kResident ? cost_.host_gradient : cost_.streamed_in();
  const auto out = stay == Stay::kStreams ? cost_.streamed_out() : cost_.host_parameter;
  const auto buffers = static_cast<double>(cost_.state_buffers * std::ssize(around_.gpus));
  const units::Seconds memory =
      stay == Stay::kArrives ? perfmodels::kAllocation * buffers : units::Seconds(0);
  return std::max({kernel, size * in / link(device).h2d, size * out / link(device).d2h, memory});
}

units::Seconds DeviceRates::write_back_time(Index params, Device gpu) const {
  return around_.transfer_latency * static_cast<double>(cost_.state_buffers) +
         params_of(params) * cost_.streamed_out() / link(gpu).d2h;
}

units::ParamsPerSecond rate_in(const perfmodels::Rates& rates, Device device) {
  return device.is_cpu() ? rates.cpu_worker
                         : rates.gpus[static_cast<std::size_t>(device.gpu)].update;
}

}  // namespace dos::sched_starpu
