// SPDX-License-Identifier: Apache-2.0
// training_node GPUS POLICY ACTIVATIONS CPUS: training steps of GPT-2 on a simulated node,
// submitted as train_gpt does. Nothing is computed: tasks take what their work costs at the rates
// below, CPUS "fast" gives CPU workers those of a GPU; StarPU places them, moves data and counts
// memory. Prints what ran where, as JSON.
#include <starpu.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "codelets/all.hpp"
#include "models/training_run.hpp"
#include "rt/device.hpp"
#include "sched_starpu/policies.hpp"

namespace {

using dos::Index;

/// Of a GPU and of one CPU worker: floating-point operations and bytes a second.
struct Speed {
  double flops;
  double bytes;
};
constexpr Speed kGpu{200e12, 2e12};
constexpr Speed kSlowCpu{50e9, 10e9};
constexpr double kLeastMicroseconds = 5;

constexpr Index kCpuWorkers = 8;
constexpr Index kSequences = 8;
constexpr Index kSteps = 6;
const dos::shape::ModelConfig kModel{"gpt2", 6, 768, 12, 1024, 8192};

Speed cpu_speed = kSlowCpu;

void do_nothing(void** /*buffers*/, void* /*argument*/) {}

double microseconds(starpu_task* task, starpu_perfmodel_arch* arch, unsigned /*implementation*/) {
  const Speed& speed = arch->devices[0].type == STARPU_CPU_WORKER ? cpu_speed : kGpu;
  double bytes = 0;
  for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(task); ++i)
    bytes += static_cast<double>(starpu_data_get_size(STARPU_TASK_GET_HANDLE(task, i)));
  return kLeastMicroseconds + 1e6 * (task->flops / speed.flops + bytes / speed.bytes);
}

/// What runs on CPUs alone, with CUDA too.
bool is_for_cpus(std::string_view symbol) {
  return symbol.starts_with("dos.load_tokens.");
}

void simulate_codelets() {
  for (const dos::rt::Codelet* codelet : dos::codelets::all_codelets()) {
    starpu_codelet* raw = codelet->raw();
    raw->model->type = STARPU_PER_ARCH;
    raw->model->arch_cost_function = microseconds;
    if (is_for_cpus(raw->name)) continue;
    raw->cuda_funcs[0] = do_nothing;
    raw->cuda_flags[0] = STARPU_CUDA_ASYNC;
  }
}

dos::test::RunOptions options(Index gpus, const std::string& policy, const std::string& activations,
                              float clip) {
  return {.model = kModel,
          .shape = {.batch = kSequences,
                    .lanes = gpus,
                    .activations = dos::shape::parse_activation_plan(activations),
                    .logits_rows = 512},
          .subgroup_params = 1'000'000,
          .workers = kCpuWorkers,
          .scheduler = policy,
          .optimizer = {.clip = clip},
          .decay = {},
          .types = {.working = dos::DType::kBF16, .gradient = dos::DType::kF32},
          .cuda_workers = gpus,
          .schedulers = dos::sched_starpu::policies()};
}

/// Forward and backward of a step, and its updates, by worker.
struct Placement {
  std::array<double, STARPU_NMAXWORKERS> flops{};
  std::array<Index, STARPU_NMAXWORKERS> passes{};
  std::array<Index, STARPU_NMAXWORKERS> updates{};
  std::array<std::set<std::string>, STARPU_NMAXWORKERS> codelets{};  ///< of all but updates
};

nlohmann::json device_of(int worker, const Placement& placement) {
  const auto at = static_cast<std::size_t>(worker);
  return {{"is_gpu", starpu_worker_get_type(worker) == STARPU_CUDA_WORKER},
          {"pass_microseconds", placement.flops[at]},
          {"passes", placement.passes[at]},
          {"updates", placement.updates[at]},
          {"codelets", placement.codelets[at]}};
}

/// Updates of the step that began before backward had ended.
Index updates_beside_backward(const std::vector<dos::rt::TaskRecord>& records) {
  double end = 0;
  for (const dos::rt::TaskRecord& record : records)
    if (record.tag.phase == dos::rt::Phase::kBackward) end = std::max(end, record.end_us);
  return std::ranges::count_if(records, [&](const dos::rt::TaskRecord& record) {
    return std::string_view(record.codelet->symbol()).starts_with("dos.update.") &&
           record.start_us < end;
  });
}

nlohmann::json run(Index gpus, const std::string& policy, const std::string& activations,
                   float clip) {
  simulate_codelets();
  dos::sched_starpu::configure({.released = &dos::rt::released_on});
  dos::test::TrainingRun run(options(gpus, policy, activations, clip));
  run.submitter().keep_from_cpus(false);
  const std::vector<std::int32_t> tokens(
      static_cast<std::size_t>(kSequences * (kModel.context + 1)));
  nlohmann::json steps = nlohmann::json::array();
  for (Index step = 1; step <= kSteps; ++step) {
    run.submitter().set_tag({.phase = dos::rt::Phase::kForward, .step = step});
    const double begin = starpu_timing_now();
    run.submit_gradients(tokens);
    run.submitter().set_phase(dos::rt::Phase::kUpdate);
    run.update(step, 1e-3);
    run.session().wait_all();
    steps.push_back(starpu_timing_now() - begin);
  }
  Placement last;
  const std::vector<dos::rt::TaskRecord> records = run.submitter().profile().take(kSteps);
  for (const dos::rt::TaskRecord& record : records) {
    const auto worker = static_cast<std::size_t>(record.worker);
    const bool is_pass = record.tag.phase == dos::rt::Phase::kForward ||
                         record.tag.phase == dos::rt::Phase::kBackward;
    if (is_pass) {
      last.flops[worker] += record.end_us - record.start_us;
      ++last.passes[worker];
    }
    if (std::string_view(record.codelet->symbol()).starts_with("dos.update."))
      ++last.updates[worker];
    else
      last.codelets[worker].insert(record.codelet->symbol());
  }
  nlohmann::json workers = nlohmann::json::array();
  for (int worker = 0; worker < static_cast<int>(starpu_worker_get_count()); ++worker)
    workers.push_back(device_of(worker, last));
  nlohmann::json devices = nlohmann::json::array();
  for (const dos::rt::Device& device : dos::rt::devices()) {
    const dos::rt::MemoryBytes held = dos::rt::allocated_on(run.session(), device.node);
    devices.push_back({{"weights", held[dos::MemoryCategory::kWorking]},
                       {"activations", held[dos::MemoryCategory::kActivations]},
                       {"released", dos::rt::released_on(device.node)}});
  }
  const dos::rt::MemoryBytes all = run.session().memory().now();
  return {{"step_microseconds", steps},
          {"workers", workers},
          {"devices", devices},
          {"subgroups", run.layout().subgroups.size()},
          {"updates_beside_backward", updates_beside_backward(records)},
          {"weights", all[dos::MemoryCategory::kWorking]},
          {"activations", all[dos::MemoryCategory::kActivations]}};
}

}  // namespace

// StarPU's header makes it starpu_main, which SimGrid calls: it returns, and calls no exit().
int main(int argc, char** argv) {
  nlohmann::json answer;
  try {
    dos::require(argc == 6, "training_node GPUS POLICY ACTIVATIONS CPUS CLIP");
    if (std::string_view(argv[4]) == "fast") cpu_speed = kGpu;
    answer = run(std::atoi(argv[1]), argv[2], argv[3], std::stof(argv[5]));
  } catch (const std::exception& error) {
    answer = {{"error", error.what()}};
  }
  std::printf("%s\n", answer.dump().c_str());
  return 0;
}
