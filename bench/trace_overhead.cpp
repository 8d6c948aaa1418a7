// SPDX-License-Identifier: Apache-2.0
// trace_overhead: what recording a trace costs a training step.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/parser.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/random.hpp"
#include "codelets/all.hpp"
#include "codelets/cross_entropy/cross_entropy_codelet.hpp"
#include "models/decoder.hpp"
#include "nn/initialise.hpp"
#include "optim/elementwise.hpp"
#include "platform/blas.hpp"
#include "rt/submitter.hpp"
#include "sched_starpu/policies.hpp"
#include "shape/cutter.hpp"
#include "spread.hpp"
#include "trace/recorder.hpp"
#include "train/step_results.hpp"

namespace {

using dos::Index;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model = "gpt2-124m";
  Index batch = 2;
  Index context = 64;
  Index pairs = 15;
  Index subgroup_params = 5'000'000;
  std::string folder = "trace_overhead";
  bool json = false;
};

/// A model on random tokens, one step at a time.
class Training {
 public:
  Training(dos::rt::Session& session, const Options& options)
      : config_(config_of(options)),
        batch_(options.batch),
        submitter_(session),
        parameters_(session,
                    dos::shape::cut_into_subgroups(
                        dos::shape::find_family(config_.architecture).parameters(config_),
                        options.subgroup_params, {}),
                    {}),
        optimizer_(session, parameters_, {}),
        results_(session, 1),
        model_(std::make_unique<dos::models::Decoder>(session, parameters_, config_,
                                                      shape_of(options, session.workers()))) {
    dos::nn::submit_initialisation(submitter_, parameters_, 1);
    submitter_.profile().take(0);
  }

  /// Milliseconds from the first submission to the end of the last task; how many tasks.
  std::pair<double, Index> step(Index number) {
    const std::vector<std::int32_t> tokens = random_tokens(number);
    const auto start = Clock::now();
    submitter_.set_tag({dos::rt::Phase::kReduce, number});
    const Index count = batch_ * config_.context;
    model_->train(submitter_, tokens,
                  {.first = true, .loss_scale = 1.0F / static_cast<float>(count)});
    dos::codelets::submit<dos::codelets::MeanLoss>(
        submitter_, {.mean = results_.loss(number), .lanes = model_->losses()}, {count},
        {.priority = 0, .label = "loss"});
    optimizer_.submit_step(submitter_, number, 1e-4, results_.norm(number));
    const auto records = submitter_.profile().take(number);
    const std::chrono::duration<double, std::milli> time = Clock::now() - start;
    const double loss = dos::train::read_scalar(results_.loss(number));
    dos::expect(loss > 0 && loss < 1e3, "step {}: the loss is {}: these timings are of no training",
                number, loss);
    return {time.count(), std::ssize(records)};
  }

 private:
  static dos::shape::ModelConfig config_of(const Options& options) {
    dos::shape::ModelConfig config = dos::models::find_preset(options.model);
    config.context = options.context;
    config.validate();
    return config;
  }

  static dos::shape::RunShape shape_of(const Options& options, Index workers) {
    dos::shape::RunShape shape;
    shape.batch = options.batch;
    shape.lanes = std::min(options.batch, workers);
    shape.validate();
    return shape;
  }

  [[nodiscard]] std::vector<std::int32_t> random_tokens(Index step) const {
    const dos::Philox random(static_cast<std::uint64_t>(step));
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(batch_ * (config_.context + 1)));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] =
          static_cast<std::int32_t>(random.uniform(i) * static_cast<double>(config_.vocabulary));
    return tokens;
  }

  dos::shape::ModelConfig config_;
  Index batch_;
  dos::rt::Submitter submitter_;
  dos::tensor::ParameterSet parameters_;
  dos::optim::ElementwiseOptimizer optimizer_;
  dos::train::StepResults results_;
  std::unique_ptr<dos::models::Decoder> model_;
};

/// Nanoseconds that a worker spends on handing over one task.
double time_of_event(dos::trace::Recorder& recorder) {
  constexpr int kEvents = 2000;  // fit the buffer between two looks of the writer
  dos::rt::TaskTrace task;
  task.record.codelet = dos::codelets::all_codelets().front();
  const auto start = Clock::now();
  for (int i = 0; i < kEvents; ++i) recorder.record(dos::trace::TaskEvent{task, {}});
  const std::chrono::duration<double, std::nano> time = Clock::now() - start;
  return time.count() / kEvents;
}

struct Result {
  std::vector<double> off_ms;
  std::vector<double> on_ms;
  std::vector<double> ratio;
  std::vector<double> writer_us;  ///< processor time of the writing thread, a step
  Index tasks = 0;
};

/// Pairs of steps, one with a recorder and one without, in turns; the recorder comes and goes
/// outside the timed part.
Result measure(dos::rt::Session& session, Training& training, const Options& options) {
  Result result;
  Index number = 0;
  training.step(++number);
  for (Index pair = 0; pair < options.pairs; ++pair) {
    double on = 0;
    double off = 0;
    for (const bool records : {pair % 2 == 0, pair % 2 != 0}) {
      if (!records) {
        off = training.step(++number).first;
        continue;
      }
      dos::trace::RecorderOptions recording;
      recording.folder = std::filesystem::path(options.folder) / std::to_string(pair);
      dos::trace::Recorder recorder(session, recording, {});
      std::tie(on, result.tasks) = training.step(++number);
      recorder.end_step(number);
      recorder.finish();
      const std::filesystem::path folder = dos::trace::rank_folder(recording.folder, 0);
      result.writer_us.push_back(
          dos::trace::read_manifest(folder / dos::trace::kManifestName).writer_cpu_us);
    }
    result.off_ms.push_back(off);
    result.on_ms.push_back(on);
    result.ratio.push_back(on / off - 1);
  }
  return result;
}

void print(const Options& options, const Result& result, double event_ns, Index workers) {
  const dos::bench::Spread off = dos::bench::spread_of(result.off_ms);
  const dos::bench::Spread on = dos::bench::spread_of(result.on_ms);
  const dos::bench::Spread ratio = dos::bench::spread_of(result.ratio);
  const dos::bench::Spread writer = dos::bench::spread_of(result.writer_us);
  const double events_us = event_ns / 1e3 * static_cast<double>(result.tasks);
  const double cost =
      (events_us + writer.median) / (off.median * 1e3 * static_cast<double>(workers));
  if (options.json) {
    const nlohmann::json json{
        {"model", options.model},     {"pairs", options.pairs},    {"tasks", result.tasks},
        {"ms_step_off", off.median},  {"ms_step_on", on.median},   {"overhead", ratio.median},
        {"overhead_min", ratio.min},  {"overhead_max", ratio.max}, {"ns_event", event_ns},
        {"us_writer", writer.median}, {"processor_share", cost}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print(
      "{}, batch {}, context {}: {} tasks a step, {} pairs\n"
      "  step without a trace {:9.1f} ms ({:.1f} to {:.1f})\n"
      "  step with a trace    {:9.1f} ms ({:.1f} to {:.1f})\n"
      "  overhead of a pair   {:9.2f} %  ({:.2f} to {:.2f})\n"
      "  handing over         {:9.1f} us a step, {:.0f} ns a task\n"
      "  writing              {:9.1f} us a step ({:.1f} to {:.1f})\n"
      "  both                 {:9.4f} % of the processor time of a step\n",
      options.model, options.batch, options.context, result.tasks, options.pairs, off.median,
      off.min, off.max, on.median, on.min, on.max, ratio.median * 100, ratio.min * 100,
      ratio.max * 100, events_us, event_ns, writer.median, writer.min, writer.max, cost * 100);
}

void run(const Options& options) {
  dos::expect(options.pairs > 0, "--pairs must be at least 1");
  dos::expect(!std::filesystem::exists(options.folder), "--folder {} exists: name a new one",
              options.folder);
  dos::platform::blas::use_one_thread();
  dos::sched_starpu::configure({.model_on_host = true});
  dos::rt::SessionConfig config;
  config.schedulers = dos::sched_starpu::policies();
  dos::rt::Session session(config);
  Training training(session, options);
  const Result result = measure(session, training, options);
  dos::trace::RecorderOptions recording;
  recording.folder = std::filesystem::path(options.folder) / "events";
  double event_ns = 0;
  {
    dos::trace::Recorder recorder(session, recording, {});
    event_ns = time_of_event(recorder);
  }
  print(options, result, event_ns, session.workers());
  std::filesystem::remove_all(options.folder);
}

}  // namespace

int main(int argc, char** argv) {
  dos::platform::blas::restart_with_better_kernels(argv);
  Options options;
  dos::apps::Parser app(
      "What recording a trace costs a training step; columns in bench/README.md.");
  app.add_option("--model", options.model, "preset").capture_default_str();
  app.add_option("--batch", options.batch, "sequences a step").capture_default_str();
  app.add_option("--context", options.context, "tokens a sequence").capture_default_str();
  app.add_option("--pairs", options.pairs, "steps with and steps without").capture_default_str();
  app.add_option("--subgroup-params", options.subgroup_params, "parameters of a subgroup")
      .capture_default_str();
  app.add_option("--folder", options.folder, "for the traces; removed at the end")
      .capture_default_str();
  app.add_flag("--json", options.json, "one JSON object instead of a table");
  if (const auto status = app.parse("trace_overhead", argc, argv)) return *status;
  try {
    run(options);
    dos::expect_output_written();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "trace_overhead: error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
