// SPDX-License-Identifier: Apache-2.0
// train_step: times forward, backward and update of a model on random tokens.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/random.hpp"
#include "codelets/cross_entropy/cross_entropy_codelet.hpp"
#include "models/registry.hpp"
#include "nn/initialise.hpp"
#include "optim/optimizer.hpp"
#include "optim/subgroups.hpp"
#include "planner/phases.hpp"
#include "platform/blas.hpp"
#include "rt/device.hpp"
#include "rt/submitter.hpp"
#include "sched_starpu/policies.hpp"
#include "spread.hpp"
#include "train/config.hpp"
#include "train/device_memory.hpp"
#include "train/estimate.hpp"
#include "train/fit.hpp"
#include "train/metrics.hpp"
#include "train/plan_model.hpp"
#include "train/step_results.hpp"

namespace {

using dos::Index;
using dos::bench::Spread;
using dos::bench::spread_of;

struct Options {
  std::string model = "gpt2-124m";
  Index batch = 4;
  Index context = 256;
  Index vocab = 0;
  Index lanes = 0;
  Index workers = -1;
  Index cuda_devices = 0;
  Index steps = 10;
  Index warmup = 2;
  Index subgroup_params = 5'000'000;
  std::string precision = "fp32";
  std::string gradient_precision = "fp32";
  std::string scheduler;
  bool recompute = false;
  bool json = false;
};

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

dos::models::ModelConfig model_config(const Options& options) {
  dos::models::ModelConfig config = dos::models::find_preset(options.model);
  if (options.context > 0) config.context = options.context;
  if (options.vocab > 0) config.vocabulary = options.vocab;
  config.validate();
  return config;
}

/// What train_gpt would be told.
dos::train::TrainConfig train_config(const Options& options) {
  dos::train::TrainConfig config;
  config.train.batch = options.batch;
  config.train.lanes = options.lanes;
  config.train.recompute = options.recompute;
  config.train.precision = options.precision;
  config.train.gradient_precision = options.gradient_precision;
  return config;
}

std::vector<std::int32_t> random_tokens(const dos::models::ModelConfig& config, Index batch,
                                        Index step) {
  const dos::Philox random(static_cast<std::uint64_t>(step));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(batch * (config.context + 1)));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] =
        static_cast<std::int32_t>(random.uniform(i) * static_cast<double>(config.vocabulary));
  return tokens;
}

/// What the counted steps took.
class Readings {
 public:
  void add(const dos::train::StepMetrics& metrics,
           const std::vector<dos::rt::TaskRecord>& records) {
    for (const auto& [name, value] :
         std::initializer_list<std::pair<const char*, double>>{{"ms_step", metrics.ms_step},
                                                               {"ms_forward", metrics.ms_forward},
                                                               {"ms_backward", metrics.ms_backward},
                                                               {"ms_update", metrics.ms_update}})
      times_[name].push_back(value);
    for (const dos::rt::TaskRecord& record : records)
      by_codelet_[record.codelet->symbol()] += (record.end_us - record.start_us) / 1e3;
    ++steps_;
  }

  /// All tasks of the run, for the idle share: those of warm-up steps may reach into counted ones.
  void add_tasks(const std::vector<dos::rt::TaskRecord>& records, bool counted) {
    for (const dos::rt::TaskRecord& record : records) {
      tasks_.emplace_back(record.start_us, record.end_us);
      double& end = counted ? counted_end_us_ : warmup_end_us_;
      end = std::max(end, record.end_us);
    }
  }

  [[nodiscard]] Spread time(const std::string& name) const { return spread_of(times_.at(name)); }
  /// Between the end of the warm-up and the end of the last counted step.
  [[nodiscard]] double idle_share(Index workers) const {
    double busy_us = 0;
    for (const auto& [start, end] : tasks_)
      busy_us += std::max(0.0, std::min(end, counted_end_us_) - std::max(start, warmup_end_us_));
    return 1 - busy_us / ((counted_end_us_ - warmup_end_us_) * static_cast<double>(workers));
  }
  /// (milliseconds of worker time a step, codelet), longest first.
  [[nodiscard]] std::vector<std::pair<double, std::string>> by_codelet() const {
    std::vector<std::pair<double, std::string>> list;
    for (const auto& [name, ms] : by_codelet_) list.emplace_back(ms / steps_, name);
    std::sort(list.rbegin(), list.rend());
    return list;
  }

 private:
  std::map<std::string, std::vector<double>> times_;
  std::map<std::string, double> by_codelet_;
  std::vector<std::pair<double, double>> tasks_;
  double warmup_end_us_ = 0;
  double counted_end_us_ = 0;
  int steps_ = 0;
};

/// Trains on random tokens, two steps in flight as train_gpt does, and reads the steps after the
/// warm-up.
class Bench {
 public:
  Bench(dos::rt::Session& session, const Options& options)
      : options_(options),
        config_(model_config(options)),
        train_(train_config(options)),
        shape_(train_.run_shape(dos::train::lane_workers(session))),
        session_(session),
        submitter_(session),
        parameters_(session,
                    dos::optim::cut_into_subgroups(
                        dos::models::find_architecture(config_.architecture).parameters(config_),
                        options.subgroup_params, {}),
                    train_.parameter_types()),
        optimizer_(session, parameters_, {}),
        results_(session, kRunAhead),
        model_(dos::models::find_architecture(config_.architecture)
                   .build(session, parameters_, config_, shape_)) {}

  Readings run() {
    submitter_.set_releases(dos::train::needs_dead_activations(
        train_, config_, parameters_.layout(), dos::train::room_of(session_)));
    dos::nn::submit_initialisation(submitter_, parameters_, 1);
    submitter_.profile().take(0);
    const Index last = options_.warmup + options_.steps;
    for (Index step = 1; step <= last + kRunAhead; ++step) {
      if (step > kRunAhead) finish(step - kRunAhead);
      if (step <= last) submit(step);
    }
    return readings_;
  }

  [[nodiscard]] double last_loss() const { return last_loss_; }

  /// [{"name": ..., "<category>": {"estimated": bytes, "allocated": bytes}}], one a device.
  [[nodiscard]] nlohmann::json device_memory() const {
    auto list = nlohmann::json::array();
    for (const dos::rt::Device& device : dos::rt::devices()) {
      nlohmann::json entry{{"name", device.name}};
      for (const auto& row : dos::train::device_memory(session_, device, estimate_of(device)))
        entry[row.category] = {{"estimated", row.estimated}, {"allocated", row.allocated}};
      list.push_back(entry);
    }
    return list;
  }

  /// Of a step, without what recomputation adds: backward is twice forward.
  [[nodiscard]] double gflop() const {
    const auto tokens = static_cast<double>(options_.batch * config_.context);
    const auto shape = dos::train::planned_shape(options_.model, config_);
    return 3 * tokens * dos::planner::forward_flops(shape).value() / 1e9;
  }

  [[nodiscard]] double parameters_m() const {
    return static_cast<double>(parameters_.layout().parameter_count()) / 1e6;
  }

 private:
  static constexpr Index kRunAhead = 2;

  void submit(Index step) {
    const Index tokens = options_.batch * config_.context;
    submitter_.set_tag({dos::rt::Phase::kReduce, step});
    model_->train(submitter_, random_tokens(config_, options_.batch, step),
                  {.first = true, .loss_scale = 1.0F / static_cast<float>(tokens)});
    dos::codelets::submit_mean_loss(submitter_, model_->losses(), tokens, results_.loss(step),
                                    {.priority = 0, .label = "loss"});
    optimizer_.submit_step(submitter_, step, 1e-4, results_.norm(step));
  }

  [[nodiscard]] dos::planner::MemoryUse estimate_of(const dos::rt::Device& device) const {
    return dos::train::estimate_device(
        config_, shape_, parameters_.layout(), train_.parameter_types(), /*placement=*/{},
        /*accumulate=*/1, std::max<Index>(1, session_.cuda_workers()),
        dos::units::Bytes(static_cast<double>(device.memory_bytes.value_or(Index{1} << 50))));
  }

  void finish(Index step) {
    const auto records = submitter_.profile().take(step);
    dos::train::StepMetrics metrics;
    clock_.measure(records, metrics);
    const double loss = dos::train::read_scalar(results_.loss(step));
    dos::expect(loss > 0 && loss < 1e3, "step {}: the loss is {}: these timings are of no training",
                step, loss);
    last_loss_ = loss;
    const bool counted = step > options_.warmup;
    readings_.add_tasks(records, counted);
    if (counted) readings_.add(metrics, records);
  }

  const Options& options_;
  dos::models::ModelConfig config_;
  dos::train::TrainConfig train_;
  dos::models::RunShape shape_;
  dos::rt::Session& session_;
  dos::rt::Submitter submitter_;
  dos::tensor::ParameterSet parameters_;
  dos::optim::Optimizer optimizer_;
  dos::train::StepResults results_;
  std::unique_ptr<dos::models::Model> model_;
  dos::train::StepClock clock_;
  Readings readings_;
  double last_loss_ = 0;
};

void print_json(const Options& options, const Readings& readings, const Bench& bench,
                Index workers) {
  nlohmann::json json{{"model", options.model},
                      {"batch", options.batch},
                      {"context", options.context},
                      {"precision", options.precision},
                      {"gradient_precision", options.gradient_precision},
                      {"steps", options.steps},
                      {"workers", workers},
                      {"peak_rss_mib", peak_rss_mib()},
                      {"worker_idle", readings.idle_share(workers)},
                      {"loss", bench.last_loss()},
                      {"device_memory", bench.device_memory()}};
  for (const char* name : {"ms_step", "ms_forward", "ms_backward", "ms_update"}) {
    const Spread spread = readings.time(name);
    json[name] = spread.median;
    json[std::string(name) + "_min"] = spread.min;
    json[std::string(name) + "_max"] = spread.max;
  }
  json["gflop_per_s"] = bench.gflop() / readings.time("ms_step").median * 1e3;
  for (const auto& [ms, codelet] : readings.by_codelet()) json["worker_ms"][codelet] = ms;
  fmt::print("{}\n", json.dump());
}

void print_table(const Options& options, const Readings& readings, Index workers, double millions) {
  fmt::print("{} ({:.1f} M parameters), {}, batch {}, context {}, {} steps, {} workers\n",
             options.model, millions, options.precision, options.batch, options.context,
             options.steps, workers);
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

void run(const Options& options) {
  dos::expect(options.steps > 0 && options.warmup >= 0,
              "--steps must be at least 1 and --warmup 0");
  dos::platform::blas::use_one_thread();
  dos::sched_starpu::configure(
      {.model_on_host = options.cuda_devices == 0, .released = &dos::rt::released_on});
  dos::rt::Session session({.scheduler = options.scheduler,
                            .cpu_workers = options.workers,
                            .cuda_workers = options.cuda_devices,
                            .schedulers = dos::sched_starpu::policies()});
  dos::expect(options.cuda_devices <= 0 || session.cuda_workers() == options.cuda_devices,
              "--cuda-devices {}, but StarPU finds {} here", options.cuda_devices,
              session.cuda_workers());
  Bench bench(session, options);
  const Readings readings = bench.run();
  if (options.json)
    print_json(options, readings, bench, session.workers());
  else
    print_table(options, readings, session.workers(), bench.parameters_m());
}

}  // namespace

int main(int argc, char** argv) {
  dos::platform::blas::restart_with_better_kernels(argv);
  Options options;
  CLI::App app("Times training steps of a model on random tokens; columns in bench/README.md.");
  app.add_option("--model", options.model, "preset")->capture_default_str();
  app.add_option("--batch", options.batch, "sequences a step")->capture_default_str();
  app.add_option("--context", options.context, "tokens a sequence; 0: the preset's")
      ->capture_default_str();
  app.add_option("--vocab", options.vocab, "vocabulary; 0: the preset's")->capture_default_str();
  app.add_option("--lanes", options.lanes, "slices of the batch; 0: one a worker")
      ->capture_default_str();
  app.add_option("--workers", options.workers, "CPU workers; -1: one a core")
      ->capture_default_str();
  app.add_option("--cuda-devices", options.cuda_devices, "CUDA devices; -1: all")
      ->capture_default_str();
  app.add_option("--steps", options.steps, "steps that count")->capture_default_str();
  app.add_option("--warmup", options.warmup, "steps before them")->capture_default_str();
  app.add_option("--subgroup-params", options.subgroup_params, "parameters of a subgroup")
      ->capture_default_str();
  app.add_option("--precision", options.precision, "fp32 or bf16")->capture_default_str();
  app.add_option("--gradient-precision", options.gradient_precision,
                 "of gradients of parameters: fp32 or bf16")
      ->capture_default_str();
  app.add_flag("--recompute", options.recompute, "compute activations again in backward");
  app.add_flag("--json", options.json, "one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);
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
