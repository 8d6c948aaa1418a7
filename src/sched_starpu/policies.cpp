// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/policies.hpp"

#include <starpu.h>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "sched/policy_registry.hpp"
#include "sched_starpu/guarded.hpp"
#include "sched_starpu/runtime_version.hpp"
#include "sched_starpu/scheduler.hpp"

namespace dos::sched_starpu {
namespace {

std::mutex settings_mutex;
std::optional<SchedulerSettings> configured;
/// Of the running policy; StarPU runs one at a time in its main context.
Scheduler* running = nullptr;

Scheduler& scheduler_of(unsigned context) {
  return *static_cast<Scheduler*>(starpu_sched_ctx_get_policy_data(context));
}

SchedulerSettings current_settings() {
  const std::lock_guard lock(settings_mutex);
  return configured ? *configured : settings_from_environment();
}

void init(unsigned context, const sched::Policy& policy) noexcept {
  guarded("init", [&] {
    {
      const std::lock_guard lock(settings_mutex);
      expect(running == nullptr,
             "policy '{}' runs in one scheduling context, and there is another already",
             policy.name);
    }
    auto* scheduler = new Scheduler(context, policy, current_settings());
    starpu_sched_ctx_set_policy_data(context, scheduler);
    const std::lock_guard lock(settings_mutex);
    running = scheduler;
  });
}

void deinit(unsigned context) noexcept {
  guarded("deinit", [&] {
    const std::lock_guard lock(settings_mutex);
    running = nullptr;
    delete &scheduler_of(context);
  });
}

void add_workers(unsigned context, int* workers, unsigned count) noexcept {
  guarded("add_workers",
          [&] { scheduler_of(context).add_workers(std::span(workers, std::size_t{count})); });
}

int push(starpu_task* task) noexcept {
  return guarded("push", [&] {
    scheduler_of(task->sched_ctx).push(task);
    return 0;
  });
}

starpu_task* pop(unsigned context) noexcept {
  return guarded("pop", [&] { return scheduler_of(context).pop(); });
}

void before(starpu_task* task, unsigned context) noexcept {
  guarded("before", [&] { scheduler_of(context).before_execution(task); });
}

void after(starpu_task* task, unsigned context) noexcept {
  guarded("after", [&] { scheduler_of(context).after_execution(task); });
}

constexpr std::size_t kMostPolicies = 8;

/// One init function a place in the registry: StarPU hands it no name.
template <std::size_t kPlace>
void init_at(unsigned context) noexcept {
  init(context, sched::policies()[kPlace]);
}

template <std::size_t... kPlaces>
constexpr auto init_functions(std::index_sequence<kPlaces...>) {
  return std::array{&init_at<kPlaces>...};
}

std::vector<starpu_sched_policy> make_policies() {
  constexpr auto kInit = init_functions(std::make_index_sequence<kMostPolicies>());
  require(sched::policies().size() <= kMostPolicies, "an init function for every policy");
  std::vector<starpu_sched_policy> result;
  for (const sched::Policy& each : sched::policies()) {
    starpu_sched_policy policy{};
    policy.init_sched = kInit[result.size()];
    policy.deinit_sched = deinit;
    policy.push_task = push;
    policy.pop_task = pop;
    policy.pre_exec_hook = before;
    policy.post_exec_hook = after;
    policy.add_workers = add_workers;
    policy.policy_name = each.name;
    policy.policy_description = each.summary;
    policy.worker_type = STARPU_WORKER_LIST;
    announce_prefetches(policy);
    result.push_back(policy);
  }
  return result;
}

}  // namespace

std::vector<starpu_sched_policy*> policies() {
  static std::vector<starpu_sched_policy> all = make_policies();
  std::vector<starpu_sched_policy*> result;
  for (starpu_sched_policy& policy : all) result.push_back(&policy);
  return result;
}

void expect_states_elsewhere() {
  const std::lock_guard lock(settings_mutex);
  if (running != nullptr) running->expect_states_elsewhere();
}

void configure(const SchedulerSettings& settings) {
  const std::lock_guard lock(settings_mutex);
  configured = settings;
}

UpdatesReport report() {
  const std::lock_guard lock(settings_mutex);
  return running == nullptr ? UpdatesReport{} : running->report();
}

std::optional<StepReport> step_report(Index step) {
  const std::lock_guard lock(settings_mutex);
  return running == nullptr ? std::nullopt : running->step_report(step);
}

std::string obstacle() {
  const std::lock_guard lock(settings_mutex);
  return running == nullptr ? "" : running->obstacle();
}

bool is_memory_short() {
  const std::lock_guard lock(settings_mutex);
  return running != nullptr && running->is_memory_short();
}

}  // namespace dos::sched_starpu
