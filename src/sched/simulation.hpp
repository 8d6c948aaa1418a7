// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "sched/contention.hpp"
#include "sched/replay.hpp"
#include "sched/step_replay.hpp"

namespace dos::sched {

/// The state of one replay (replay.hpp); SI units as plain numbers inside.
class Simulation {
 public:
  /// `passes`: of a whole step; null: of the update alone.
  Simulation(const Problem& problem, const Plan& plan, bool record,
             const StepPasses* passes = nullptr);
  Replay run();
  /// When the update ends; nothing once that is known to be later than `limit`, in seconds.
  std::optional<units::Seconds> run_until(double limit);
  /// When forward has ended. Pre: there are passes.
  units::Seconds run_step();
  /// As planned_end_by(), in seconds.
  std::optional<units::Seconds> run_forward_until(double limit);

 private:
  /// A resource that does one thing at a time: a direction of a link, a GPU, the downcast thread.
  struct Lane {
    bool busy = false;
    Work work = Work::kStateIn;
    Index subgroup = -1;
    double begin = 0;
    double flows_from = 0;  ///< end of the latency
    double amount = 0;      ///< bytes or parameters
    double left = 0;        ///< of them
    double rate = 0;        ///< now
  };
  /// Workers that share a rate evenly. `progress` is what each of them has done since the start, so
  /// that an event costs the logarithm of their number.
  struct Crew {
    struct Member {
      double key;  ///< progress at which it ends, or time at which it joins
      Index worker;
      bool operator>(const Member& other) const {
        return key != other.key ? key > other.key : worker > other.worker;
      }
    };
    using Queue = std::priority_queue<Member, std::vector<Member>, std::greater<>>;
    Queue active;
    Queue waiting;  ///< in their latency
    double progress = 0;
    double rate = 0;  ///< of one member, now
    [[nodiscard]] double count() const { return static_cast<double>(active.size()); }
  };
  struct Worker {
    Index subgroup = -1;
    double begin = 0;
    bool waits_for_copy = false;
  };
  /// Of one tier: one copy a direction at a time.
  struct Link {
    perfmodels::LinkRates rates;
    bool half_duplex = false;
    bool is_gpu = true;
    std::deque<Index> weights;    ///< waiting to go in
    std::deque<Index> returning;  ///< states waiting to go in to where they only live
    std::deque<Index> gradients;  ///< waiting to go out
    std::deque<Index> departing;  ///< states that are not updated there, waiting to go out
    std::deque<Index> states;     ///< updated, waiting to go out; of residents, the parameters
    Lane in, out;
  };
  struct Gpu {
    std::vector<Index> order;
    std::size_t next_in = 0;      ///< place in `order` of the next states to fetch
    std::size_t next_kernel = 0;  ///< place in `order` of the next update
    Index arrived = 0;            ///< places in `order` whose states are there
    Index slots = 0;
    Index arriving = 0;  ///< residents with memory, on their way, or waiting for their kernel
    Index most_arriving = 0;
    std::size_t next_to_arrive = 0;  ///< place in `order`: those before have memory, or need none
    double window_bytes = 0;
    double resident_bytes = 0;
    Lane kernel;
  };
  /// Of a whole step.
  struct Progress {
    /// By GPU, or of the workers where there is none: of both passes, what it computes next.
    std::vector<std::size_t> next;
    std::vector<Index> backward_left;  ///< by depth: of these, who has yet to end it
    Index depths_left = 0;             ///< of backward
    Index passes_left = 0;             ///< of all who compute
    std::vector<Index> weights_left;   ///< by depth: subgroups that forward waits for
    std::vector<bool> released;        ///< by subgroup: its update need not wait for more gradients
    double end = 0;
  };

  void find_departing();
  void step();
  void start_everything();
  void grant_slots();
  [[nodiscard]] std::optional<Index> grant_slot();
  [[nodiscard]] std::deque<Index>::const_iterator next_to_pass() const;
  void start_kernel(Index g);
  bool start_gpu_update(Index g);
  void let_residents_in();
  bool let_in(Gpu& gpu, Index subgroup);
  void begin_passes();
  void start_pass(Index g);
  void finish_pass(Index g);
  void complete_gradient(Index subgroup);
  void let_cpu_have(Index subgroup);
  void release(Index subgroup);
  [[nodiscard]] std::size_t depth_of(Index subgroup) const;
  void start_link(Link& link);
  void start_return(Link& link);
  [[nodiscard]] std::size_t next_to_come(const Gpu& gpu) const;
  void start_state_in(Index g);
  void start_cpu();
  [[nodiscard]] std::optional<Index> next_for_cpu();
  void start_downcast();
  void start(Lane& lane, Work work, Index subgroup, double amount, double latency);
  void start_first(Lane& lane, Work work, std::deque<Index>& waiting, units::BytesPerParam each,
                   double latency);
  void request_gradients();
  [[nodiscard]] bool fits(const Gpu& gpu, Index g, Index subgroup) const;
  [[nodiscard]] bool cpu_may_start(Index subgroup) const;
  [[nodiscard]] bool kernel_may_start(Index subgroup) const;
  [[nodiscard]] double launch_left(const Gpu& gpu, Index subgroup) const;

  void set_rates();
  /// Of the directions of a link.
  struct Pair {
    double in;
    double out;
  };
  [[nodiscard]] Pair at_once(const Link& link, double in, double out, double both) const;
  void limit_link(const Link& link, bool cpu_busy);
  [[nodiscard]] double next_event() const;
  void advance(double step);
  void finish_due(double step);
  void finish_copy(Lane& lane, Index tier, bool goes_in);
  void finish_state_in(Index subgroup, Index tier);
  void finish_state_out(Index subgroup, Index tier);
  void finish_kernel(Index g);
  void finish_downcast();
  void go_home(Index subgroup);
  void finish_crew(Crew& crew, bool is_downcast);
  void finish_cpu_update(Index worker);
  void release_worker(Index worker);
  void weight_is_ready(Index subgroup);
  void change_memory(Index g, double bytes);
  void log(Work work, Index subgroup, Index tier, Index worker, double begin);

  /// Of states, which are several copies.
  [[nodiscard]] double state_latency(const Link& link) const {
    return link.rates.latency.value() * static_cast<double>(problem_.cost.state_buffers);
  }
  [[nodiscard]] double params(Index subgroup) const {
    return static_cast<double>(problem_.subgroups[static_cast<std::size_t>(subgroup)].params);
  }
  [[nodiscard]] const Assignment& assignment(Index subgroup) const {
    return plan_.assignments[static_cast<std::size_t>(subgroup)];
  }
  /// The GPU that has the gradient of what the CPU updates, -1 if none.
  [[nodiscard]] Index reader_of(Index subgroup) const { return assignment(subgroup).reader; }
  [[nodiscard]] bool stays(Index subgroup) const { return is_resident(assignment(subgroup)); }
  /// Forward reads the FP32 parameters in host memory.
  [[nodiscard]] bool model_on_host() const { return problem_.cost.host_parameter.value() > 0; }
  /// The tier that has the states when the step begins.
  [[nodiscard]] Index place_of(Index subgroup) const {
    if (!problem_.homes.empty()) return problem_.homes[static_cast<std::size_t>(subgroup)];
    return assignment(subgroup).home;
  }
  /// A resident whose states are elsewhere.
  [[nodiscard]] bool arrives(Index subgroup) const {
    return stays(subgroup) && place_of(subgroup) != assignment(subgroup).home;
  }
  [[nodiscard]] bool resident_needs_nothing(Index subgroup) const {
    return stays(subgroup) && !arrives(subgroup) && problem_.cost.host_gradient.value() == 0;
  }
  /// As many are on their way through host memory as the plan lets.
  [[nodiscard]] bool is_way_taken() const {
    const auto most = static_cast<std::size_t>(plan_.execution.on_the_way);
    return most > 0 && granted_ - home_again_ >= most;
  }
  /// What a lane has to do in all, as far as rounding counts.
  [[nodiscard]] double size_of(const Lane& lane) const {
    return lane.work == Work::kPass ? lane.amount : params(lane.subgroup);
  }
  [[nodiscard]] bool flowing(const Lane& lane) const {
    return lane.busy && lane.flows_from <= now_;
  }
  /// Of what computes forward and backward.
  [[nodiscard]] Lane& passes_of(Index g) {
    return gpus_.empty() ? host_passes_ : gpus_[static_cast<std::size_t>(g)].kernel;
  }
  [[nodiscard]] Index computers() const { return std::max<Index>(1, std::ssize(gpus_)); }

  const Problem& problem_;
  const Plan& plan_;
  bool record_;
  const StepPasses* passes_;
  Progress progress_;
  double now_ = 0;
  Replay result_;

  std::vector<Link> links_;  ///< by tier
  std::vector<Gpu> gpus_;
  Lane host_passes_;  ///< forward and backward where there are none
  std::vector<Index> cpu_order_;
  std::size_t cpu_next_ = 0;  ///< place in it: those before have begun, or been passed over
  std::size_t cpu_begun_ = 0;
  std::size_t cpu_done_ = 0;
  std::size_t gradients_requested_ = 0;
  std::size_t gradients_ahead_ = 0;
  std::vector<bool> gradient_here_;
  std::vector<bool> departs_;  ///< by subgroup: its states have yet to come to host memory
  /// The CPU has come to it while its states were on their way; and those that have come since.
  std::vector<bool> passed_over_;
  std::priority_queue<Index, std::vector<Index>, std::greater<>> late_;
  /// Subgroups that live behind host memory and have yet to get room there, in order, and how many
  /// have got it. Each has it from before its states come until they are home again: none waits
  /// with a part.
  std::deque<Index> passing_;
  std::size_t granted_ = 0;
  std::size_t home_again_ = 0;
  double host_bytes_ = 0;             ///< theirs, and of what is there when the step begins or ends
  std::vector<double> on_gpu_since_;  ///< by subgroup: when a kernel could be launched
  double allocated_until_ = 0;        ///< the runtime allocates one buffer at a time, on any GPU
  std::vector<double> memory_since_;  ///< by subgroup that arrives: when it is allocated; < 0: not
  std::vector<Worker> workers_;
  std::vector<Index> idle_workers_;  ///< the last one starts next
  Crew updates_;
  Crew downcasts_;
  std::deque<Index> to_downcast_;    ///< submitted to the downcast thread
  std::deque<Index> not_submitted_;  ///< updated since the last GPU update
  Lane downcast_lane_;
  Index unfinished_ = 0;  ///< subgroups whose last activity is still to come
  Index first_depth_left_ = 0;
  double host_end_ = 0;
  std::vector<Flow> flows_;
};

}  // namespace dos::sched
