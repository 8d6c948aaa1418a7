// SPDX-License-Identifier: Apache-2.0
// train_step: times forward, backward and update of a model on random tokens.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/parser.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "codelets/attention/attention_cudnn.hpp"
#include "codelets/matrix/products.hpp"
#include "fit/fit.hpp"
#include "perfmodels/rates.hpp"
#include "platform/blas.hpp"
#include "rt/cuda.hpp"
#include "rt/cuda_memory.hpp"
#include "sched_starpu/policies.hpp"
#include "step_bench.hpp"

namespace {

using dos::Index;
using dos::bench::Readings;
using dos::bench::Spread;
using dos::bench::StepBench;
using dos::bench::StepOptions;
using dos::bench::StepPlan;

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

nlohmann::json device_memory(const StepBench& bench) {
  auto list = nlohmann::json::array();
  for (const StepBench::DeviceMemory& device : bench.device_memory()) {
    nlohmann::json entry{{"name", device.name}};
    for (const auto& row : device.rows)
      entry[row.name] = {{"estimated", row.estimated}, {"allocated", row.allocated}};
    list.push_back(entry);
  }
  return list;
}

/// What the policy says of its updates, and what it did in the counted steps.
nlohmann::json updates(const Readings& readings) {
  const dos::sched_starpu::UpdatesReport report = dos::sched_starpu::report();
  return {{"plan", report.plan},
          {"obstacle", report.obstacle},
          {"gpu_planned", readings.planned_share()},
          {"gpu_done", readings.executed_share()}};
}

void print_json(const StepOptions& options, const Readings& readings, const StepBench& bench,
                Index workers) {
  nlohmann::json json{{"model", options.model},
                      {"parameters", bench.parameters()},
                      {"batch", options.batch},
                      {"accumulate", options.accumulate},
                      {"context", bench.context()},
                      {"precision", options.precision},
                      {"gradient_precision", options.gradient_precision},
                      {"products", dos::codelets::fp32_products()},
                      {"gpu_attention", dos::codelets::gpu_attention()},
                      {"steps", options.steps},
                      {"workers", workers},
                      {"peak_rss_mib", peak_rss_mib()},
                      {"worker_idle", readings.idle_share(workers)},
                      {"loss", bench.last_loss()},
                      {"device_memory", device_memory(bench)},
                      {"updates", updates(readings)}};
  for (const char* name : {"ms_step", "ms_forward", "ms_backward", "ms_update"}) {
    const Spread spread = readings.time(name);
    json[name] = spread.median;
    json[std::string(name) + "_min"] = spread.min;
    json[std::string(name) + "_max"] = spread.max;
  }
  json["gflop_per_s"] = bench.gflop() / readings.time("ms_step").median * 1e3;
  json["tokens_per_s"] = bench.tokens() / readings.time("ms_step").median * 1e3;
  for (const auto& [ms, codelet] : readings.by_codelet()) json["worker_ms"][codelet] = ms;
  fmt::print("{}\n", json.dump());
}

void print_table(const StepOptions& options, const Readings& readings, const StepBench& bench,
                 Index workers) {
  fmt::print("{} ({:.1f} M parameters), {}, batch {} x {}, context {}, {} steps, {} workers\n",
             options.model, bench.parameters() / 1e6, options.precision, options.batch,
             options.accumulate, bench.context(), options.steps, workers);
  for (const char* name : {"ms_step", "ms_forward", "ms_backward", "ms_update"}) {
    const Spread spread = readings.time(name);
    fmt::print("  {:<12} {:9.1f}  ({:.1f} to {:.1f})\n", name, spread.median, spread.min,
               spread.max);
  }
  fmt::print("  worker idle  {:8.1f} %\n  peak memory  {:8.0f} MiB\n",
             100 * readings.idle_share(workers), peak_rss_mib());
  fmt::print("  worker milliseconds a step by codelet:\n");
  for (const auto& [ms, codelet] : readings.by_codelet())
    fmt::print("    {:<44} {:9.2f}\n", codelet, ms);
}

/// What the run would need and what there is, in bytes.
void print_needs(const StepPlan& plan, const dos::fit::Room& room) {
  const auto memory = dos::fit::estimate_run(plan.run, room);
  nlohmann::json json{{"host",
                       {{"needed", static_cast<Index>(memory.host.total().value())},
                        {"available", room.host_bytes}}},
                      {"devices", nlohmann::json::array()}};
  for (std::size_t i = 0; i < memory.devices.size(); ++i)
    json["devices"].push_back(
        {{"name", room.devices[i].name},
         {"needed", plan.device_memory > 0 ? plan.device_memory
                                           : static_cast<Index>(memory.devices[i].total().value())},
         {"available", room.devices[i].bytes}});
  fmt::print("{}\n", json.dump());
}

/// StarPU takes any limit for what there is.
void expect_limit_below_memory(Index limit) {
  for (const dos::rt::Device& device : dos::rt::devices()) {
    const auto number = static_cast<std::size_t>(dos::rt::cuda_device_of(device.worker));
    const Index bytes = dos::rt::cuda_memory_bytes().at(number);
    dos::expect(limit <= bytes, "--state-memory: {} would need {:.1f} GB and has {:.1f} GB",
                device.name, static_cast<double>(limit) / 1e9, static_cast<double>(bytes) / 1e9);
  }
}

std::optional<dos::perfmodels::GpuRates> link_of(const std::string& machine) {
  if (machine.empty()) return std::nullopt;
  const dos::perfmodels::Rates rates =
      dos::perfmodels::rates_of(dos::perfmodels::find_machine(machine, "", {}), /*ranks=*/1);
  return rates.gpus.empty() ? std::nullopt : std::optional(rates.gpus.front());
}

void run(const StepOptions& options) {
  const StepPlan plan = plan_of(options);
  dos::platform::blas::use_one_thread();
  dos::codelets::choose_products(options.products);
  dos::codelets::choose_attention(options.attention,
                                  options.cuda_devices == 0 ? 0 : dos::rt::least_cuda_capability());
  dos::sched_starpu::configure({.model_on_host = options.cuda_devices == 0,
                                .released = &dos::rt::released_on,
                                .measured_link = link_of(options.machine)});
  dos::rt::Session session({.scheduler = options.scheduler,
                            .cpu_workers = options.workers,
                            .cuda_workers = options.cuda_devices,
                            .device_memory = options.dry_run ? 0 : plan.device_memory,
                            .cuda_workspace = dos::models::cuda_workspace_bytes(
                                plan.run.model, plan.run.config.parameter_types().working),
                            .schedulers = dos::sched_starpu::policies()});
  dos::expect(options.cuda_devices <= 0 || session.cuda_workers() == options.cuda_devices,
              "--cuda-devices {}, but StarPU finds {} here", options.cuda_devices,
              session.cuda_workers());
  const dos::fit::Room room = dos::fit::room_of(session);
  if (options.dry_run) return print_needs(plan, room);
  expect_limit_below_memory(plan.device_memory);
  dos::fit::fit_to(plan.run, room);
  StepBench bench(session, options, plan);
  const Readings readings = bench.run();
  if (options.json)
    print_json(options, readings, bench, session.workers());
  else
    print_table(options, readings, bench, session.workers());
}

}  // namespace

int main(int argc, char** argv) {
  dos::platform::blas::restart_with_better_kernels(argv);
  StepOptions options;
  dos::apps::Parser app(
      "Times training steps of a model on random tokens; columns in bench/README.md.");
  app.add_option("--model", options.model, "preset").capture_default_str();
  app.add_option("--batch", options.batch, "sequences of a micro-batch").capture_default_str();
  app.add_option("--accumulate", options.accumulate, "micro-batches a step").capture_default_str();
  app.add_option("--context", options.context, "tokens a sequence; 0: the preset's")
      .capture_default_str();
  app.add_option("--vocab", options.vocab, "vocabulary; 0: the preset's").capture_default_str();
  app.add_option("--lanes", options.lanes, "slices of the batch; 0: one a worker")
      .capture_default_str();
  app.add_option("--workers", options.workers, "CPU workers; -1: one a core").capture_default_str();
  app.add_option("--cuda-devices", options.cuda_devices, "CUDA devices; -1: all")
      .capture_default_str();
  app.add_option("--steps", options.steps, "steps that count").capture_default_str();
  app.add_option("--warmup", options.warmup, "steps before them").capture_default_str();
  app.add_option("--subgroup-params", options.subgroup_params, "parameters of a subgroup")
      .capture_default_str();
  app.add_option("--precision", options.precision, "fp32 or bf16").capture_default_str();
  app.add_option("--gradient-precision", options.gradient_precision,
                 "of gradients of parameters: fp32 or bf16")
      .capture_default_str();
  app.add_option("--products", options.products,
                 "library of FP32 products: auto, openblas or onednn")
      .capture_default_str();
  app.add_option("--attention", options.attention, "BF16 attention on GPUs: auto, own or cudnn")
      .capture_default_str();
  app.add_option("--state-memory", options.state_memory,
                 "GB of each CUDA device for states of the optimizer, beside what the model is "
                 "estimated to need; -1: what there is")
      .capture_default_str();
  app.add_option("--machine", options.machine,
                 "the machine file that calibrate wrote here, whose link plans take");
  app.add_flag("--recompute", options.recompute, "compute activations again in backward");
  app.add_flag("--json", options.json, "one JSON object instead of a table");
  app.add_flag("--dry-run", options.dry_run,
               "only say, as one JSON object, what memory is needed and available, in bytes");
  if (const auto status = app.parse("train_step", argc, argv)) return *status;
  try {
    if (const char* scheduler = std::getenv("STARPU_SCHED")) options.scheduler = scheduler;
    run(options);
    dos::expect_output_written();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_step: error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
