// SPDX-License-Identifier: Apache-2.0
// sched_overhead: what a scheduler costs a task when very many updates are pending.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "apps/parser.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "rt/submitter.hpp"
#include "sched_starpu/policies.hpp"
#include "spread.hpp"

namespace {

using dos::Index;
using dos::bench::Spread;
using dos::bench::spread_of;
using Clock = std::chrono::steady_clock;

struct Options {
  Index tasks = 100'000;
  Index rounds = 3;
  std::vector<std::string> schedulers{"dos", "zero-offload", "eager", "prio", "lws"};
  bool json = false;
};

std::atomic<bool> is_at_gate;
std::atomic<bool> gate_is_open;
std::atomic<Index> tasks_done;

void wait_at_gate(const dos::rt::TaskView& /*task*/) {
  is_at_gate = true;
  while (!gate_is_open) std::this_thread::yield();
}

void count_task(const dos::rt::TaskView& /*task*/) {
  ++tasks_done;
}

const dos::rt::Codelet& gate_codelet() {
  static const dos::rt::Codelet codelet = dos::rt::make_codelet<wait_at_gate>(
      {.symbol = "dos.bench.gate.v1", .modes = {dos::rt::Mode::kReadWrite}, .tail = {}});
  return codelet;
}

const dos::rt::Codelet& update_codelet() {
  static const dos::rt::Codelet codelet = dos::rt::make_codelet<count_task>(
      {.symbol = "dos.update.bench.v1", .modes = {dos::rt::Mode::kReadWrite}, .tail = {}});
  return codelet;
}

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Cost {
  std::vector<double> submit_us;
  std::vector<double> run_us;
};

/// One worker is held at a gate while all tasks are submitted, and then runs them.
Cost measure(const std::string& scheduler, const Options& options) {
  dos::rt::Session session(
      {.scheduler = scheduler, .cpu_workers = 1, .schedulers = dos::sched_starpu::policies()});
  const dos::rt::Handle gate(session, {.name = "gate", .count = 1});
  std::vector<std::unique_ptr<dos::rt::Handle>> buffers;
  for (Index i = 0; i < options.tasks; ++i)
    buffers.push_back(
        std::make_unique<dos::rt::Handle>(session, dos::rt::HandleSpec{.name = "p", .count = 1}));
  Cost cost;
  dos::rt::Submitter submitter(session, 2 * options.tasks);
  const auto tasks = static_cast<double>(options.tasks);
  for (Index round = 0; round < options.rounds; ++round) {
    is_at_gate = false;
    gate_is_open = false;
    tasks_done = 0;
    const std::vector<const dos::rt::Handle*> at_gate{&gate};
    submitter.submit(gate_codelet(), at_gate, 0, {1, {1}}, {});
    while (!is_at_gate) std::this_thread::yield();
    const auto submission = Clock::now();
    for (Index i = 0; i < options.tasks; ++i) {
      const std::vector<const dos::rt::Handle*> buffer{buffers[static_cast<std::size_t>(i)].get()};
      submitter.submit(update_codelet(), buffer, 0, {1, {1}},
                       {.priority = static_cast<int>(i % 100)});
    }
    cost.submit_us.push_back(microseconds_since(submission) / tasks);
    const auto execution = Clock::now();
    gate_is_open = true;
    session.wait_all();
    cost.run_us.push_back(microseconds_since(execution) / tasks);
    submitter.profile().take(0);
    dos::expect(tasks_done == options.tasks, "{} of {} tasks ran under {}", tasks_done.load(),
                options.tasks, scheduler);
  }
  return cost;
}

void run(const Options& options) {
  // Some 2 KB of memory a task, all of them pending: 10^7 are a slip of the hand.
  constexpr Index kMostTasks = 10'000'000;
  constexpr Index kMostRounds = 1'000'000;
  dos::expect(options.tasks >= 1 && options.tasks <= kMostTasks, "--tasks {}: must be 1 to {}",
              options.tasks, kMostTasks);
  dos::expect(options.rounds >= 1 && options.rounds <= kMostRounds, "--rounds {}: must be 1 to {}",
              options.rounds, kMostRounds);
  dos::expect(!options.schedulers.empty(), "--schedulers names at least one");
  // What is wrong is said before the table begins, and not within the start of StarPU.
  for (const std::string& scheduler : options.schedulers)
    dos::rt::Session::expect_scheduler(scheduler, dos::sched_starpu::policies());
  dos::sched_starpu::configure(dos::sched_starpu::settings_from_environment());
  nlohmann::json rows = nlohmann::json::array();
  for (const std::string& scheduler : options.schedulers) {
    const Cost cost = measure(scheduler, options);
    const Spread submit = spread_of(cost.submit_us);
    const Spread execute = spread_of(cost.run_us);
    if (!options.json && rows.empty())
      fmt::print(
          "{} pending updates, one worker, {} rounds: microseconds a task\n{:<16}{:>24}{:>24}\n",
          options.tasks, options.rounds, "scheduler", "submit and push", "pop, run, complete");
    rows.push_back(
        {{"scheduler", scheduler}, {"submit_us", submit.median}, {"run_us", execute.median}});
    if (!options.json)
      fmt::print("{:<16}{:>24}{:>24}\n", scheduler,
                 fmt::format("{:.2f} ({:.2f}-{:.2f})", submit.median, submit.min, submit.max),
                 fmt::format("{:.2f} ({:.2f}-{:.2f})", execute.median, execute.min, execute.max));
  }
  if (options.json) fmt::print("{}\n", rows.dump());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  dos::apps::Parser app(
      "Times submission and execution of empty update tasks under schedulers; columns in "
      "bench/README.md.");
  app.add_option("--tasks", options.tasks, "updates pending at once").capture_default_str();
  app.add_option("--rounds", options.rounds, "steps, all counted").capture_default_str();
  app.add_option("--schedulers", options.schedulers, "names").capture_default_str();
  app.add_flag("--json", options.json, "one JSON array instead of a table");
  if (const auto status = app.parse("sched_overhead", argc, argv)) return *status;
  try {
    run(options);
    dos::expect_output_written();
  } catch (const std::exception& error) {
    fmt::print(stderr, "sched_overhead: error: {}\n", error.what());
    return 1;
  }
}
