// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "sched/workload.hpp"
#include "sched_starpu/learned_rate.hpp"
#include "sched_starpu/worker_place.hpp"

namespace dos::sched_starpu {

/// The node under a program.
struct Surroundings {
  Index cpu_workers = 1;
  struct Gpu {
    units::BytesPerSecond h2d;
    units::BytesPerSecond d2h;
    sched::StateMemory memory;  ///< until read_memory says more
  };
  std::vector<Gpu> gpus;
  units::Seconds transfer_latency;
  /// SchedulerSettings::measured_link.
  std::optional<perfmodels::GpuRates> measured_link{};
  /// Asked once for each GPU, in the step of Tuning::memory_step; null: memory stays as it is.
  std::function<sched::StateMemory(Index gpu)> read_memory{};
};

/// The work of GPUs beside which updates come or run.
enum class Beside {
  kBackward,  ///< they come one by one, and run as they come
  kForward,   ///< they come at once, behind backward
  kBoth,      ///< they come one by one, and most run later
};

/// How fast each device updates, measured or suggested, and what follows for one update. Rates are
/// of one CPU worker, or of a GPU.
class DeviceRates {
 public:
  /// `uses_gpus`: whether the policy updates on GPUs; it needs their rates then.
  DeviceRates(Surroundings around, bool uses_gpus, const Tuning& tuning = {});

  /// What a performance model expects with data at hand; nothing of it counts once the device is
  /// measured. No time, or no parameters: the model knows nothing.
  void suggest(Index params, Device device, units::Seconds time);
  /// An update has run in `time` with data at hand. `settles_in`: the time may hold what memory
  /// takes, and is the rate only until another is known: a plan from such rates would move more,
  /// and be wrong again.
  void see(Index params, Device device, units::Seconds time, bool settles_in);
  /// The GPU has computed something else than an update for so long.
  void see_other(Device gpu, units::Seconds time);
  /// The same of forward, behind updates that came beside backward.
  void see_forward(Device gpu, units::Seconds time);
  /// A step begins. `beside`: what GPUs computed while the updates of the one before, of so many
  /// parameters, came or ran. What streams waits for backward, and for forward where a GPU has
  /// memory for Tuning::least_beside updates of `largest` parameters at its peak; plans are for its
  /// end there, or with memory for Tuning::least_ahead where updates come beside backward.
  void begin_step(Beside beside, units::Params params, units::Params largest);
  /// What an update moves.
  void set_cost(const sched::UpdateCost& cost) { cost_ = cost; }
  void read_memory();

  /// Where the index-th subgroup of the first step runs to show a rate; the CPU, but for
  /// Tuning::probes on each GPU of which none is suggested.
  [[nodiscard]] Device probe(Index index) const;
  /// Whether every rate that the policy needs is measured or suggested.
  [[nodiscard]] bool are_known() const;
  /// As plans take them; a GPU that needs none has Tuning::unknown_gpu. Pre: are_known().
  [[nodiscard]] perfmodels::Rates for_plan(const sched::UpdateCost& cost) const;
  /// Whether one has changed since by more than Tuning::rate_change, or how long streamed updates
  /// wait. Pre: are_known().
  [[nodiscard]] bool have_changed_since(const perfmodels::Rates& then) const;
  /// Whether the GPU has computed something else since the step began.
  [[nodiscard]] bool has_other_work(Index gpu) const {
    return others_[static_cast<std::size_t>(gpu)].beside.time.value() > 0;
  }
  /// Of the GPU that takes longest, what each of its tasks takes of the forward that begins beside
  /// updates; nothing where none does.
  [[nodiscard]] std::vector<units::Seconds> forward() const;

  /// How long an update takes: on one CPU worker; on a GPU its kernel or its copies, whichever is
  /// longer, or the memory for states that come to stay. Nothing while the rate is unknown.
  [[nodiscard]] std::optional<units::Seconds> expected(Index params, Device device,
                                                       Stay stay = Stay::kStreams) const;
  /// The same at a given rate.
  [[nodiscard]] units::Seconds time_at(units::ParamsPerSecond rate, Index params, Device device,
                                       Stay stay = Stay::kStreams) const;
  /// How long what a streamed update leaves takes back to where it lives.
  [[nodiscard]] units::Seconds write_back_time(Index params, Device gpu) const;

  [[nodiscard]] const LearnedRate& of(Device device) const { return rates_[device.number()]; }
  [[nodiscard]] const Surroundings& around() const { return around_; }

 private:
  [[nodiscard]] const Surroundings::Gpu& link(Device gpu) const {
    return around_.gpus[static_cast<std::size_t>(gpu.gpu)];
  }
  [[nodiscard]] units::ParamsPerSecond planned(Device device) const;

  const Tuning tuning_;
  Surroundings around_;
  const bool uses_gpus_;
  sched::UpdateCost cost_;
  std::vector<LearnedRate> rates_;  ///< by device
  /// Tasks of a GPU in the step: their time, and the sum of its squares.
  struct Tasks {
    units::Seconds time{0};
    double squares = 0;  ///< s^2
    void add(units::Seconds task) {
      time += task;
      squares += task.value() * task.value();
    }
    /// A task at work at some instant, long ones being at work more often, is as long as this.
    /// Pre: there was one.
    [[nodiscard]] units::Seconds at_work() const { return units::Seconds(squares / time.value()); }
  };
  struct OtherWork {
    Tasks beside;               ///< what updates that come, or have come, run beside
    Tasks behind;               ///< of forward, behind updates that came beside backward
    units::Seconds wait{0};     ///< for it, that is to be hidden (perfmodels::GpuRates)
    units::Seconds forward{0};  ///< of the next forward; 0: none begins beside updates
    Index tasks = 0;            ///< it is so many, of the length of a task at some instant
  };
  [[nodiscard]] bool has_room_beside_forward(std::size_t gpu, units::Bytes bytes) const;
  [[nodiscard]] units::Seconds wait_for(const Tasks& other, std::size_t gpu,
                                        units::Params params) const;
  std::vector<OtherWork> others_;  ///< by GPU
};

/// The rate of a device among those of a plan: of one CPU worker, or of the GPU.
units::ParamsPerSecond rate_in(const perfmodels::Rates& rates, Device device);

}  // namespace dos::sched_starpu
