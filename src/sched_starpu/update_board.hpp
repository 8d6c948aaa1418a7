// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "sched_starpu/device_rates.hpp"
#include "sched_starpu/forward_watch.hpp"
#include "sched_starpu/ledger.hpp"
#include "sched_starpu/plan_keeper.hpp"
#include "sched_starpu/subgroup_registry.hpp"

namespace dos::sched_starpu {

struct PlacedUpdate {
  Index index = -1;  ///< of its subgroup, the same in every step
  Place place;
  bool by_plan = true;  ///< else it rather goes where it ends first
};

/// A lock for who has no other threads.
struct NoLock {
  void lock() {}
  void unlock() {}
};

/// Learns the subgroups of a program and the rates of its devices from its update tasks, and has
/// them planned: pure bookkeeping without a runtime, and without a lock of its own.
///
/// The way of an update: place() when it is ready, executed() when it has run. The first step shows
/// the rates (DeviceRates::probe); from the second step on the policy's plan holds, that of the
/// step before while another is made. Where the policy cannot plan, every update is the CPU's.
class UpdateBoard {
 public:
  /// Throws Error for an unknown policy or an option out of range.
  UpdateBoard(std::string policy, sched::PolicyOptions options, Surroundings surroundings,
              const Tuning& tuning = {});

  /// What place() and executed() see from here on happens at this time, of any clock. Never called:
  /// no plan is tried (PlanTrial).
  void set_time(units::Seconds now) { now_ = now; }
  /// An update is ready: it arrives, a plan is made if one is due, and its place is decided for
  /// this step, by the plan that holds then. `lock`: that of the board, held by the caller; it is
  /// given up while a plan is made, which takes milliseconds.
  template <class Lock>
  PlacedUpdate place(const UpdateTask& task, Lock&& lock) {
    const Index index = arrive(task);
    if (plans_.is_due()) {
      PlanOrder due = order();
      std::optional<PlanMadeAhead> ahead = std::exchange(ahead_, std::nullopt);
      if (ahead && ahead->order.asks_as(due)) {
        plans_.adopt(std::move(ahead->outcome));
        ++plans_made_.ahead;
      } else {
        lock.unlock();
        PlanOutcome outcome = carry_out(std::move(due));
        lock.lock();
        plans_.adopt(std::move(outcome));
        ++plans_made_.waited_for;
      }
    }
    return {.index = index,
            .place = ledger_.placed(index, task, planned(index)),
            .by_plan = task.is_redone || !prefers_earliest_end()};
  }
  /// Whether all is known that the plan of the next step depends on: the step's updates have run,
  /// and so has what GPUs do beside them. Once a step; twice where nobody can tell the first time
  /// whether forward is over.
  [[nodiscard]] bool may_plan_ahead() const;
  /// Makes the plan that the next step would ask for if it began now, so that no update waits for
  /// it: place() takes it if that is what it asks for. `lock` as there. Pre: may_plan_ahead().
  template <class Lock>
  void plan_ahead(Lock&& lock) {
    planned_ahead_ = stage();
    ahead_.reset();
    std::optional<PlanOrder> next = next_order();
    if (!next) return;
    lock.unlock();
    PlanOutcome outcome = carry_out(*next);
    lock.lock();
    // What the plan was to begin may have begun without it.
    if (planned_ahead_ == stage()) ahead_ = {std::move(*next), std::move(outcome)};
  }
  /// The update has run in `time` on one CPU worker or on a GPU, data at hand. `reason`: why it ran
  /// elsewhere than placed; nothing if that place cannot run it.
  void executed(Index index, Device device, units::Seconds time,
                std::optional<MoveReason> reason = {}, bool is_redone = false);
  /// As DeviceRates::see_other(), while updates of the step are still to come, or, where they came
  /// at once, during the forward that begins beside them.
  void saw_other(Device gpu, units::Seconds time);
  /// What tells when that forward is over.
  [[nodiscard]] ForwardWatch& forward_watch() { return forward_watch_; }
  /// The gradient of a subgroup has started its way to the CPU before its update has arrived.
  void flushed(Index index, units::Bytes bytes) {
    ledger_.flushed(bytes, subgroups_.has_arrived(index));
  }
  /// As Ledger::waited() and DeviceRates::suggest().
  void waited(units::Seconds time) { ledger_.waited(time); }
  void suggest(Index params, Device device, units::Seconds time) {
    rates_.suggest(params, device, time);
  }

  /// Where the plan of this step has the subgroup.
  [[nodiscard]] Place planned(Index index) const;
  /// By GPU, what this step's streamed updates may newly take of its memory; empty without a plan
  /// to keep to.
  [[nodiscard]] std::vector<UpdateRoom> rooms() const;
  /// The subgroup with this gradient, if the CPU will update it.
  [[nodiscard]] std::optional<Index> updated_on_cpu(const void* gradient) const;
  /// Whether updates go where they end first: when they come no faster than they run. Then a plan,
  /// which is for all at once, says little about when each ends. A share that is asked for holds.
  [[nodiscard]] bool prefers_earliest_end() const;
  /// Whether updates come while the GPUs have other work that is not to wait for them.
  [[nodiscard]] bool are_beside_backward() const {
    return prefers_earliest_end() || subgroups_.go_ahead();
  }
  /// Whether Surroundings::read_memory is still to be asked.
  [[nodiscard]] bool learns_memory() const { return subgroups_.step() < tuning_.memory_step; }
  /// Without what only the runtime knows: names, workers, times and bytes of the devices.
  [[nodiscard]] UpdatesReport report() const;

  [[nodiscard]] const SubgroupRegistry& subgroups() const { return subgroups_; }
  [[nodiscard]] const DeviceRates& rates() const { return rates_; }
  [[nodiscard]] const PlanKeeper& plans() const { return plans_; }
  [[nodiscard]] const Ledger& ledger() const { return ledger_; }
  [[nodiscard]] const PlansMade& plans_made() const { return plans_made_; }
  /// The last of PlansMade::waited_for took so long.
  void waited_for_plan(units::Seconds time) { plans_made_.waited += time; }

 private:
  Index arrive(const UpdateTask& task);
  /// Of the step before the one that begins now.
  StepTimes take_times();
  /// What GPUs computed beside the updates of the step that ends now.
  [[nodiscard]] Beside take_beside();
  [[nodiscard]] PlanOrder order();
  /// Of the step that would begin now; nothing where it needs no other plan.
  [[nodiscard]] std::optional<PlanOrder> next_order() const;

  /// How far the step is.
  struct Stage {
    Index step = 0;
    bool forward_is_over = false;
    bool operator==(const Stage&) const = default;
  };
  [[nodiscard]] Stage stage() const { return {subgroups_.step(), forward_watch_.is_over()}; }

  struct PlanMadeAhead {
    PlanOrder order;
    PlanOutcome outcome;
  };
  void set_forward(sched::Problem& problem) const;

  const Tuning tuning_;
  SubgroupRegistry subgroups_;
  DeviceRates rates_;
  PlanKeeper plans_;
  Ledger ledger_;
  ForwardWatch forward_watch_;
  units::Seconds while_they_came_{0};    ///< that GPUs computed beside updates
  units::Seconds when_all_had_come_{0};  ///< likewise
  units::Seconds now_{0};
  units::Seconds began_{0};     ///< the step
  units::Seconds last_end_{0};  ///< of an update
  Stage planned_ahead_;
  std::optional<PlanMadeAhead> ahead_;
  PlansMade plans_made_;
};

}  // namespace dos::sched_starpu
