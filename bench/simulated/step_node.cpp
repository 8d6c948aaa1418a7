// SPDX-License-Identifier: Apache-2.0
// The part of simulated_step that runs on the simulated node, with StarPU's SimGrid in the place of
// its devices and of time. Tasks do nothing and take what they are told; policy, transfers, memory
// and evictions are the real ones.
#include <starpu.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/common_sizes.hpp"
#include "base/error.hpp"
#include "perfmodels/machine.hpp"
#include "rt/device.hpp"
#include "rt/session.hpp"
#include "sched_starpu/policies.hpp"
#include "simulated/node_protocol.hpp"
#include "simulated/step_homes.hpp"
#include "simulated/step_log.hpp"
#include "simulated/step_parts.hpp"
#include "simulated/step_task.hpp"
#include "update_result.hpp"

namespace {

using dos::Index;
using dos::MemoryCategory;
using dos::bench::Access;
using dos::bench::attach;
using dos::bench::Kernel;
using dos::bench::kMicro;
using dos::bench::Note;
using dos::bench::StepResult;
using dos::bench::StepTask;

/// Steps before those that are recorded: rates settle within some ten updates, with them the plan,
/// and what stays on the GPU goes there.
constexpr Index kWarmUps = 12;
/// How often memory is looked at, in simulated time: four times as often as the published study,
/// since simulated looks cost nothing.
constexpr float kSampleSeconds = 0.005F;
/// Large buffers count in pages: StarPU's vectors have at most 2^32 elements.
constexpr Index kPage = 4096;

// Per worker; StarPU's cost functions have no other way to know.
double cpu_rate = 0;
double gpu_rate = 0;

double update_time(starpu_task* task, starpu_perfmodel_arch* arch, unsigned /*implementation*/) {
  const auto params = static_cast<double>(starpu_vector_get_nx(STARPU_TASK_GET_HANDLE(task, 0)));
  const double rate = arch->devices[0].type == STARPU_CPU_WORKER ? cpu_rate : gpu_rate;
  return params / rate / kMicro;
}

double told_time(starpu_task* task, starpu_perfmodel_arch* /*arch*/, unsigned /*impl*/) {
  return static_cast<const Note*>(task->cl_arg)->microseconds;
}

/// Parameters and moments.
using Bank = std::array<starpu_data_handle_t, 3>;

struct Subgroup {
  Bank states{};
  Bank other{};  ///< null unless its updates go ahead
  starpu_data_handle_t g = nullptr, w = nullptr;
  starpu_data_handle_t sum = nullptr;  ///< of the gradient's squares
  std::string name;
  Index params = 0;
  std::size_t depth = 0;

  [[nodiscard]] bool goes_ahead() const { return other.front() != nullptr; }
};

/// A training program's tasks: forward and backward a depth at a time, the norm of all gradients,
/// updates. One GPU runs the model.
class Program {
 public:
  explicit Program(const StepTask& task)
      : task_(task), addresses_(bytes_of_states(task)), log_(buffers_) {
    std::map<Index, Index> pieces;
    std::vector<Index> sizes;
    for (const dos::sched::Subgroup& each : task.subgroups) sizes.push_back(each.params);
    // As a training has it (tensor/parameter_set.hpp).
    const std::vector<Index> rooms = dos::common_sizes(sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const dos::sched::Subgroup& each = task.subgroups[i];
      subgroups_.push_back(
          make(each, pieces[each.depth]++, rooms[i], task.goes_ahead && !task.are_away(i)));
    }
    for (std::size_t depth = 0; depth < task.depths.size(); ++depth)
      activations_.push_back(transient(fmt::format("activations.{}", depth),
                                       MemoryCategory::kActivations,
                                       task.depths[depth].activations));
    forward_workspace_ =
        transient("workspace.forward", MemoryCategory::kWorkspace, task.forward_workspace);
    backward_workspace_ =
        transient("workspace.backward", MemoryCategory::kWorkspace, task.backward_workspace);
    norm_ = scalar("norm");
    for (std::size_t depth = 0; depth < task.depths.size(); ++depth)
      submit_pass("init", depth, 0, 1, of_depth(depth, &Subgroup::w, STARPU_W), 0);
    std::vector<std::vector<starpu_data_handle_t>> states;
    for (const Subgroup& each : subgroups_)
      states.emplace_back(each.states.begin(), each.states.end());
    homes_.emplace(task_, states);
    starpu_task_wait_for_all();
  }

  /// Writes the trace. A step lasts from the end of the one before to that of its last task. As in
  /// a training, the tasks of the next step are there before one ends, also before the first that
  /// is recorded and after the last.
  StepResult run() {
    const Index last = kWarmUps + task_.steps;
    StepResult result;
    log_.expect_steps(kWarmUps + 1, last);
    for (Index step = 1; step <= last + 1; ++step) {
      submit_step(step);
      if (step > 1) wait_for(step - 1);
      if (step - 1 == kWarmUps) {
        dos::bench::take_transferred();
        homes_->count(-1, result);
        log_.open();
      }
    }
    const dos::bench::NodeStep moved = dos::bench::take_transferred();
    result.link_bytes = moved.bytes_h2d + moved.bytes_d2h;
    homes_->count(1, result);
    log_.close();
    starpu_task_wait_for_all();
    homes_->settle();
    for (Index step = kWarmUps + 1; step <= last; ++step)
      result.seconds.push_back((ends_[step] - ends_[step - 1]) * kMicro);
    log_.write(task_);
    return result;
  }

 private:
  static constexpr Index kScalarBytes = 8;
  /// FP32 parameters and two moments, in two banks at most, 16-bit gradients and working
  /// parameters.
  static constexpr Index kBytesPerParam = 28;
  /// Of an update's bytes, what the sum of squares of a 16-bit gradient reads.
  static constexpr double kSumPart = 2 / dos::perfmodels::kCpuUpdateTraffic.value();

  static std::size_t bytes_of_states(const StepTask& task) {
    Index params = 0;
    for (const dos::sched::Subgroup& each : task.subgroups) params += each.params;
    const Index scalars = std::ssize(task.subgroups) + 1;
    return static_cast<std::size_t>(params * kBytesPerParam + scalars * kScalarBytes);
  }

  starpu_data_handle_t scalar(const std::string& name) {
    return buffers_.add(name, MemoryCategory::kData, addresses_.take(kScalarBytes), 1,
                        kScalarBytes);
  }

  starpu_data_handle_t transient(const std::string& name, MemoryCategory category, Index bytes) {
    if (bytes == 0) return nullptr;
    return buffers_.add(name, category, 0, dos::ceil_div(bytes, kPage), kPage);
  }

  Subgroup make(const dos::sched::Subgroup& each, Index piece, Index room, bool has_bank) {
    Subgroup result{.name = fmt::format("depth{}.{}", each.depth, piece),
                    .params = each.params,
                    .depth = static_cast<std::size_t>(each.depth)};
    const auto add = [&](const char* kind, MemoryCategory category, Index bytes) {
      return buffers_.add(fmt::format("{}.{}", kind, result.name), category,
                          addresses_.take(static_cast<std::size_t>(each.params * bytes)),
                          each.params, bytes, category == MemoryCategory::kStates ? room : 0);
    };
    const auto add_bank = [&](const char* p, const char* m, const char* v) {
      Bank bank;
      std::ranges::transform(std::array{p, m, v}, bank.begin(), [&](const char* kind) {
        return add(kind, MemoryCategory::kStates, 4);
      });
      return bank;
    };
    result.states = add_bank("state.p", "state.m", "state.v");
    if (has_bank) {
      result.other = add_bank("bank.p", "bank.m", "bank.v");
      starpu_data_set_user_data(result.other.front(), result.states.front());
    }
    result.g = add("gradient", MemoryCategory::kGradients, 2);
    result.w = add("working", MemoryCategory::kWorking, 2);
    result.sum = scalar("sum." + result.name);
    return result;
  }

  [[nodiscard]] Access of_depth(std::size_t depth, starpu_data_handle_t Subgroup::*which,
                                starpu_data_access_mode mode) const {
    Access access;
    for (const Subgroup& each : subgroups_)
      if (each.depth == depth) access.emplace_back(each.*which, mode);
    return access;
  }

  void submit_step(Index step) {
    const std::size_t depths = task_.depths.size();
    // The whole pass comes before all updates, in its order.
    int urgency = static_cast<int>(2 * depths + 2 * subgroups_.size());
    for (std::size_t depth = 0; depth < depths; ++depth) {
      Access access = of_depth(depth, &Subgroup::w, STARPU_R);
      if (activations_[depth] != nullptr) access.emplace_back(activations_[depth], STARPU_W);
      if (depth >= 1) access.emplace_back(forward_workspace_, depth == 1 ? STARPU_W : STARPU_RW);
      if (depth + 1 == depths) access.emplace_back(backward_workspace_, STARPU_W);
      submit_pass("forward", depth, step, --urgency, access, task_.depths[depth].forward);
    }
    for (std::size_t depth = depths; depth-- > 0;) {
      Access access = of_depth(depth, &Subgroup::w, STARPU_R);
      for (const auto& each : of_depth(depth, &Subgroup::g, STARPU_W)) access.push_back(each);
      if (activations_[depth] != nullptr) access.emplace_back(activations_[depth], STARPU_R);
      if (depth >= 1) access.emplace_back(forward_workspace_, STARPU_RW);
      access.emplace_back(backward_workspace_, STARPU_RW);
      submit_pass("backward", depth, step, --urgency, access, task_.depths[depth].backward);
      if (activations_[depth] != nullptr) release(activations_[depth]);
      for (std::size_t i = 0; i < subgroups_.size(); ++i)
        if (subgroups_[i].depth == depth) submit_sum(i, step);
    }
    submit_norm(step);
    release(forward_workspace_);
    release(backward_workspace_);
    for (Kernel* kernel : {&ahead_, &redo_})
      for (std::size_t i = 0; i < subgroups_.size(); ++i) submit_update(*kernel, i, step);
    homes_->end_step();
    if (dos::sched_starpu::is_memory_short()) drop_dead();
    for (Subgroup& each : subgroups_)
      if (each.goes_ahead()) std::swap(each.states, each.other);
  }

  /// What the next backward writes before anybody reads it.
  void drop_dead() const {
    for (const Subgroup& each : subgroups_) {
      dos::rt::drop_copies(each.g);
      dos::rt::drop_copies(each.sum);
    }
  }

  void release(starpu_data_handle_t dead) const {
    if (task_.releases_activations) starpu_data_invalidate_submit(dead);
  }

  void submit_pass(const char* phase, std::size_t depth, Index step, int priority,
                   const Access& access, double seconds) {
    starpu_task* task = starpu_task_create();
    task->cl = *phase == 'b' ? &backward_.codelet : &forward_.codelet;
    attach(task, access);
    submit(task, priority,
           {.label = fmt::format("depth{}", depth),
            .phase = phase,
            .step = step,
            // StarPU takes 0 for a duration that it does not know.
            .microseconds = std::max(1.0, seconds / kMicro)});
  }

  /// The part of a gradient in the norm.
  void submit_sum(std::size_t place, Index step) {
    const Subgroup& subgroup = subgroups_[place];
    starpu_task* task = starpu_task_create();
    task->cl = &sum_.codelet;
    attach(task, {{subgroup.g, STARPU_R}, {subgroup.sum, STARPU_W}});
    const double time = static_cast<double>(subgroup.params) / gpu_rate * kSumPart / kMicro;
    submit(task, task_.sum_priority(place),
           {.label = subgroup.name,
            .phase = "reduce",
            .step = step,
            .microseconds = std::max(1.0, time)});
  }

  /// The norm, which every update needs.
  void submit_norm(Index step) {
    starpu_task* task = starpu_task_create();
    task->cl = &norm_of_sums_.codelet;
    Access access{{norm_, STARPU_W}};
    for (const Subgroup& each : subgroups_) access.emplace_back(each.sum, STARPU_R);
    attach(task, access);
    submit(task, static_cast<int>(subgroups_.size()) + 1,
           {.label = "norm", .phase = "reduce", .step = step, .microseconds = 1});
  }

  /// What has one bank is updated once, behind the norm.
  void submit_update(Kernel& asked, std::size_t place, Index step) {
    const Subgroup& subgroup = subgroups_[place];
    if (&asked == &ahead_ && !subgroup.goes_ahead()) return;
    Kernel& kernel = subgroup.goes_ahead() ? asked : update_;
    starpu_task* task = starpu_task_create();
    task->cl = &kernel.codelet;
    const bool in_place = &kernel == &update_;
    Access access;
    for (starpu_data_handle_t state : subgroup.states)
      access.emplace_back(state, in_place ? STARPU_RW : STARPU_R);
    if (!in_place)
      for (starpu_data_handle_t state : subgroup.other) access.emplace_back(state, STARPU_W);
    access.emplace_back(subgroup.g, STARPU_R);
    access.emplace_back(subgroup.w, STARPU_W);
    starpu_data_handle_t last = task_.is_unclipped ? subgroup.sum : norm_;
    if (&kernel != &ahead_) access.emplace_back(last, STARPU_R);
    attach(task, access);
    homes_->before_update(place, last, *task);
    submit(task, static_cast<int>(subgroups_.size() - place),
           {.label = subgroup.name, .phase = "update", .step = step},
           /*is_left_out=*/&kernel == &redo_ && !task_.is_clipped(step));
    homes_->after_update(place);
  }

  struct Ending {
    Program* program;
    starpu_task* task;
    Note note;
    bool is_left_out;
  };

  void submit(starpu_task* task, int priority, Note note, bool is_left_out = false) {
    note.number = submitted_++;
    ++pending_[note.step];
    auto* ending = new Ending{
        .program = this, .task = task, .note = std::move(note), .is_left_out = is_left_out};
    // Once all that it waits for is done, as rt::Condition.
    if (is_left_out) {
      task->prologue_callback_func = [](void* left_out) {
        static_cast<starpu_task*>(left_out)->where = STARPU_NOWHERE;
      };
      task->prologue_callback_arg = task;
    }
    task->cl_arg = &ending->note;
    task->priority = priority;
    task->callback_func = ended;
    task->callback_arg = ending;
    dos::require(starpu_task_submit(task) == 0, "a worker for every task");
  }

  static void ended(void* argument) noexcept {
    const std::unique_ptr<Ending> ending(static_cast<Ending*>(argument));
    Program& program = *ending->program;
    const Note& note = ending->note;
    if (!ending->is_left_out) program.log_.task_done(*ending->task, note);
    program.ends_[note.step] = starpu_timing_now();
    --program.pending_[note.step];
  }

  /// Lets simulated time go by until the step's tasks have ended.
  void wait_for(Index step) {
    while (pending_[step] > 0) {
      log_.sample_memory(0);
      starpu_sleep(kSampleSeconds);
    }
    log_.sample_memory(step);
  }

  const StepTask& task_;
  Kernel forward_{"forward.simulated", told_time, {}, false};
  Kernel backward_{"backward.simulated", told_time, {}, false};
  Kernel sum_{"sum_of_squares.simulated", told_time, {}, false};
  Kernel norm_of_sums_{"combine_norm.simulated", told_time, {}, true};
  Kernel update_{"dos.update.simulated", update_time, {}, true};
  Kernel ahead_{"dos.update.simulated.apart", update_time, {}, true};
  Kernel redo_{"dos.redo.simulated", update_time, {}, true};
  dos::bench::Addresses addresses_;
  dos::bench::Buffers buffers_;
  dos::bench::StepLog log_;
  std::vector<Subgroup> subgroups_;
  std::optional<dos::bench::StepHomes> homes_;
  std::vector<starpu_data_handle_t> activations_;  ///< by depth; null: none
  starpu_data_handle_t forward_workspace_ = nullptr;
  starpu_data_handle_t backward_workspace_ = nullptr;
  starpu_data_handle_t norm_ = nullptr;
  Index submitted_ = 0;
  std::map<Index, Index> pending_;  ///< tasks by step
  std::map<Index, double> ends_;    ///< by step
};

StepResult run(const StepTask& task) {
  cpu_rate = task.cpu_rate;
  gpu_rate = task.gpu_rate;
  dos::sched_starpu::configure({.options = task.options,
                                .observer = &dos::bench::note_placement,
                                .released = &dos::rt::released_on});
  const dos::rt::Session session({.scheduler = task.policy,
                                  .cpu_workers = task.cpu_workers,
                                  .cuda_workers = 1,
                                  .schedulers = dos::sched_starpu::policies()});
  if (task.slots > 0) dos::sched_starpu::expect_states_elsewhere();
  Program program(task);
  StepResult result = program.run();
  const dos::sched_starpu::UpdatesReport report = dos::sched_starpu::report();
  result.plan = report.plan;
  result.obstacle = report.obstacle;
  return result;
}

}  // namespace

// StarPU's header makes it starpu_main.
int main(int argc, char** argv) {
  return dos::bench::answer(argc, argv, "simulated_step", run);
}
