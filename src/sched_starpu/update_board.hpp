// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sched/plan.hpp"
#include "sched/policy.hpp"
#include "sched_starpu/learned_rate.hpp"
#include "sched_starpu/planning.hpp"
#include "sched_starpu/ready_tasks.hpp"
#include "sched_starpu/report.hpp"
#include "sched_starpu/stay.hpp"

namespace dos::sched_starpu {

/// One update task as the runtime shows it.
struct UpdateTask {
  const void* subgroup = nullptr;  ///< identity: the handle of the parameters
  const void* gradient = nullptr;  ///< likewise
  Index params = 0;
  int priority = 0;  ///< larger: the next forward needs it earlier
  sched::UpdateCost cost;
  Index user = -1;  ///< the only GPU that has the gradient; -1: none, or several
};

/// Where an update runs: the CPU workers together, or a GPU.
struct Device {
  Index gpu = -1;  ///< -1: the CPU
  [[nodiscard]] bool is_cpu() const { return gpu < 0; }
  bool operator==(const Device&) const = default;
};

/// Where an update goes.
struct Place {
  Device device;
  bool is_resident = false;  ///< whether its states stay on the GPU
  bool arrives = false;      ///< a resident whose states are still elsewhere
};

/// What stays as it is while the program runs.
struct Surroundings {
  Index cpu_workers = 1;
  struct Gpu {
    units::BytesPerSecond h2d;
    units::BytesPerSecond d2h;
    sched::StateMemory memory;
  };
  std::vector<Gpu> gpus;
  units::Seconds transfer_latency;
};

/// Learns the subgroups of a program and the rates of its devices from its update tasks, and
/// plans: pure bookkeeping without a runtime, and without a lock of its own.
///
/// The first step is placed on the CPU, but for two subgroups a GPU that show its rate, if nobody
/// suggests one; from the second step on the policy's plan holds. A step begins when a subgroup is
/// seen again: between two updates of a training program lies a forward pass, which needs all of
/// the first. At its beginning a plan is ordered when a rate has changed by more than 5 %. Whoever
/// has the order plans (planning.hpp) while updates are still placed by the plan before, and brings
/// what came out. Where the policy cannot plan, every update is the CPU's. While residents are not
/// where the plan has them, each step has a plan of its own that leads there
/// (sched/transition.hpp).
///
/// An update goes through arrive(), then order() and adopt() if a plan is due, place(), executed().
class UpdateBoard {
 public:
  /// Throws Error for an unknown policy or an option out of range.
  UpdateBoard(std::string policy, sched::PolicyOptions options, Surroundings surroundings);

  /// An update is ready: its index, the same in every step. The first one of a step begins it.
  Index arrive(const UpdateTask& task);

  /// The memory of GPUs is read when the second step begins: by then forward and backward have
  /// allocated what they need. Until then an update shows what of it is there for updates alone.
  [[nodiscard]] bool learns_memory() const { return current_.step == 1; }
  [[nodiscard]] bool wants_memory() const { return current_.step == 2 && arrived_ == 1; }
  void set_memory(Device gpu, const sched::StateMemory& for_states);

  /// What is to be planned; nothing while no plan is due, or somebody else plans.
  std::optional<PlanOrder> order();
  /// The plan that holds from now on.
  void adopt(PlanOutcome outcome);

  /// The step of the updates that arrive, counted from 1.
  [[nodiscard]] Index step() const { return current_.step; }
  /// Whether as many updates have arrived as in the step before. Until then a device without work
  /// has work of its own to come.
  [[nodiscard]] bool all_arrived() const { return arrived_ >= expected_; }
  /// Whether updates go where they end first: when most of the step before had run as its last one
  /// arrived. Then they come no faster than they run and do not wait for each other, and a plan,
  /// which is for all at once, says little about when each ends. A share that is asked for holds.
  [[nodiscard]] bool prefers_earliest_end() const {
    return plan_ && kept_pace_ && !options_.share && !options_.stride;
  }
  /// Where an update that has arrived goes: decided once a step, by the plan that holds now.
  Place place(Index index);

  /// What the plan that holds says.
  [[nodiscard]] Place planned(Index index) const;
  /// Streamed updates that may be prefetched or run on a GPU at once.
  [[nodiscard]] Index window(Index gpu) const;
  /// Residents that may be on their way to a GPU, or run when they have come, at once.
  [[nodiscard]] Index arrivals(Index gpu) const;
  /// Streamed updates whose states fit in the memory that residents leave, at least 1.
  [[nodiscard]] Index slots(Index gpu) const;
  /// Updates of the CPU that may run or fetch their gradients at once, when `workers` are at work.
  [[nodiscard]] Index gradients_ahead(Index workers) const;
  /// How long states of a streamed update take back to host memory.
  [[nodiscard]] units::Seconds write_back_time(Index params, Device gpu) const;

  /// Whether a rate that the policy needs is neither measured nor suggested.
  [[nodiscard]] bool lacks_rates() const { return !rates_are_known(); }
  /// What a performance model expects of an update with data at hand on one CPU worker or on a GPU.
  /// Holds until that device is measured.
  void suggest(Index params, Device device, units::Seconds time);

  /// An update has run in `time` on one CPU worker or on a GPU, data at hand. On a GPU where it was
  /// not in the step before, or to which residents come in this step, the time may hold what memory
  /// takes: it is the rate only until another is known. A plan from such rates would move more, and
  /// be wrong again. `reason`: why it ran elsewhere than planned; nothing if the place that is
  /// planned cannot run it.
  void executed(Index index, Device device, units::Seconds time,
                std::optional<MoveReason> reason = {});

  /// The subgroup with this gradient, if the CPU will update it.
  [[nodiscard]] std::optional<Index> updated_on_cpu(const void* gradient) const;
  /// Its gradient has started its way to host memory, before its update has arrived.
  void flushed(Index index, units::Bytes bytes);
  /// A CPU worker has waited for the data of an update.
  void waited(units::Seconds time);

  /// How long an update takes: on one CPU worker; on a GPU its kernel or its copies, whichever is
  /// longer, or the memory for states that come to stay. Nothing before the first one was measured.
  [[nodiscard]] std::optional<units::Seconds> expected(Index params, Device device,
                                                       Stay stay = Stay::kStreams) const;
  /// The same at the rates that the plan was made with; nothing while there is no plan.
  [[nodiscard]] std::optional<units::Seconds> planned_time(Index params, Device device) const;

  [[nodiscard]] const std::optional<sched::Plan>& plan() const { return plan_; }
  /// How long after the first update of this step the last one of a device ends by its plan. Pre:
  /// there is one.
  [[nodiscard]] units::Seconds planned_end(Device device) const {
    return step_ends_[static_cast<std::size_t>(device.gpu + 1)];
  }
  /// Without what only the runtime knows: names, workers, times and bytes of the devices.
  [[nodiscard]] Report report() const;
  [[nodiscard]] std::optional<StepReport> step_report(Index step) const;
  [[nodiscard]] const std::string& obstacle() const { return obstacle_; }

 private:
  struct Known {
    UpdateTask task;
    Index step = 0;          ///< in which it was seen last
    Index position = -1;     ///< in problem_, once there is a plan
    Place placed{};          ///< in that step
    bool has_moved = false;  ///< placed elsewhere in the step before
    Index home = -1;         ///< the GPU on which its states stay
  };
  LearnedRate& rate_of(Device device);
  [[nodiscard]] const LearnedRate& rate_of(Device device) const;
  [[nodiscard]] units::Seconds update_time(Index params, Device device, units::ParamsPerSecond rate,
                                           Stay stay) const;
  void begin_step();
  void end_step();
  void count_share(const Known& known, Device device, std::optional<MoveReason> reason);
  /// What an update moves that runs there.
  void count_traffic(Known& known, Index index, const Place& place);
  [[nodiscard]] bool rates_are_known() const;
  [[nodiscard]] units::ParamsPerSecond gpu_rate(std::size_t gpu) const;
  [[nodiscard]] bool rates_have_changed() const;
  /// Whether all residents of the plan are at home, and no others.
  [[nodiscard]] bool is_settled() const;
  [[nodiscard]] Place place_in(const std::optional<sched::Plan>& plan, const Known& known) const;
  [[nodiscard]] sched::Problem describe(const std::vector<Index>& order) const;
  void count_slots();
  /// What the plan was made with, in words.
  [[nodiscard]] std::string rates_used() const;

  std::string policy_;
  sched::PolicyOptions options_;
  Surroundings surroundings_;
  std::unordered_map<const void*, Index> index_of_;
  std::unordered_map<const void*, Index> index_of_gradient_;
  std::vector<Known> known_;
  LearnedRate cpu_;  ///< of one worker
  std::vector<LearnedRate> gpus_;
  bool uses_gpus_;                   ///< the policy, for updates
  std::vector<bool> is_moved_into_;  ///< by GPU: residents come in this step
  std::vector<units::ParamsPerSecond> planned_with_;
  std::optional<sched::Problem> problem_;
  std::optional<sched::Plan> plan_;
  std::vector<units::Seconds> planned_ends_;  ///< by device
  std::optional<sched::Plan> step_plan_;   ///< of this step: plan_ once all residents are at home
  std::vector<units::Seconds> step_ends_;  ///< by device
  std::vector<Index> slots_;               ///< by GPU
  std::vector<Index> arrivals_;            ///< by GPU
  Index planned_subgroups_ = 0;            ///< what planned_with_ is for
  bool due_ = false;
  bool replans_ = false;  ///< what is due is another plan, not only the plan of the step
  bool being_planned_ = false;
  StepReport current_;
  units::Bytes next_flushed_{};   ///< of the step that comes
  Index arrived_ = 0;             ///< updates of this step
  Index unfinished_ = 0;          ///< of them, when the last one arrived
  Index expected_ = 0;            ///< updates of the step before
  bool kept_pace_ = false;        ///< most of them had run when the last one arrived
  std::vector<StepReport> last_;  ///< as in Report
  StepReport all_;
  std::string obstacle_;
};

}  // namespace dos::sched_starpu
