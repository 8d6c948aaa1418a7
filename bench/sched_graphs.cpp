// SPDX-License-Identifier: Apache-2.0
// How long whole task graphs take under schedulers, in turn within one process.
#include <fmt/format.h>
#include <starpu.h>

#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/parser.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "graphs.hpp"
#include "platform/blas.hpp"
#include "sched_starpu/policies.hpp"
#include "spread.hpp"

namespace {

using dos::Index;
using dos::bench::Spread;

struct Options {
  std::vector<std::string> schedulers{"dos", "dmdas", "lws", "eager"};
  Index rounds = 5;
  Index warm_up = 2;
  Index tiles = 16;
  Index tile_size = 192;
  dos::bench::TrainingShape training;
  Index cpu_workers = -1;
  Index opencl_devices = 0;
  Index gpus = 0;
  bool simulated = false;
  dos::bench::SimulatedSpeeds speeds;
  bool json = false;
};

using MakeGraph =
    std::function<std::unique_ptr<dos::bench::Graph>(dos::rt::Session&, const Options&)>;

struct NamedGraph {
  const char* name;
  MakeGraph make;
};

const std::vector<NamedGraph>& graphs() {
  static const std::vector<NamedGraph> all{
      {"cholesky",
       [](dos::rt::Session& session, const Options& options) {
         return dos::bench::make_cholesky(session, options.tiles, options.tile_size);
       }},
      {"training", [](dos::rt::Session& session, const Options& options) {
         return dos::bench::make_training(session, options.training);
       }}};
  return all;
}

/// StarPU takes fewer workers than it is asked for without a word.
void expect_workers(const dos::rt::Session& session, const Options& options) {
  const auto [cpus, opencl, gpus] =
      std::tuple(session.cpu_workers(), session.opencl_workers(), session.cuda_workers());
  dos::expect(options.cpu_workers == -1 || cpus == options.cpu_workers,
              "--workers {}: StarPU can run {} here: lower it", options.cpu_workers, cpus);
  dos::expect(opencl == options.opencl_devices,
              "--opencl-devices {}: StarPU finds {}: lower it, or see clinfo",
              options.opencl_devices, opencl);
  dos::expect(gpus == options.gpus,
              "--gpus {}: StarPU simulates {}: lower it, or sample another machine (apps/sampling)",
              options.gpus, gpus);
}

/// Milliseconds of each graph under one scheduler; simulated ones where StarPU simulates.
std::vector<double> measure(const std::string& scheduler, const Options& options) {
  dos::rt::Session session({.scheduler = scheduler,
                            .cpu_workers = options.cpu_workers,
                            .opencl_workers = options.opencl_devices,
                            .cuda_workers = options.gpus,
                            .schedulers = dos::sched_starpu::policies()});
  expect_workers(session, options);
  std::vector<double> result;
  for (const NamedGraph& each : graphs()) {
    const std::unique_ptr<dos::bench::Graph> graph = each.make(session, options);
    dos::rt::Submitter submitter(session);
    double start = 0;
    for (Index run = 0; run <= options.warm_up; ++run) {
      graph->reset();
      session.wait_all();
      start = starpu_timing_now();
      graph->submit(submitter);
      session.wait_all();
    }
    result.push_back((starpu_timing_now() - start) * 1e-3);
    submitter.profile().take(0);
    if (!options.simulated) graph->check();
  }
  return result;
}

struct Range {
  const char* option;
  Index value;
  Index least;
  Index most;
};

/// The upper ends catch slips of the hand: what they allow may still need more memory than there
/// is.
void check_ranges(const Options& options) {
  constexpr Index kMany = 10'000;
  constexpr Index kMost = 1'000'000;
  const dos::bench::TrainingShape& training = options.training;
  for (const Range& range : {Range{"--rounds", options.rounds, 1, kMost},
                             {"--warm-up", options.warm_up, 0, kMost},
                             {"--tiles", options.tiles, 1, kMany},
                             {"--tile-size", options.tile_size, 1, kMany},
                             {"--layers", training.layers, 1, kMany},
                             {"--width", training.width, 1, kMost},
                             {"--lanes", training.lanes, 1, kMany},
                             {"--rows", training.rows, 1, kMost},
                             {"--steps", training.steps, 1, kMost},
                             {"--opencl-devices", options.opencl_devices, 0, kMany},
                             {"--gpus", options.gpus, 0, kMany}})
    dos::expect(range.value >= range.least && range.value <= range.most, "{} {}: must be {} to {}",
                range.option, range.value, range.least, range.most);
  dos::expect(
      options.cpu_workers == -1 || (options.cpu_workers >= 1 && options.cpu_workers <= kMany),
      "--workers {}: must be 1 to {}, or -1: one a core", options.cpu_workers, kMany);
  for (const auto& [option, speed] : {std::pair{"--cpu-gflops", options.speeds.cpu},
                                      std::pair{"--gpu-gflops", options.speeds.gpu}})
    dos::expect(std::isfinite(speed) && speed > 0, "{} {:g}: must be a number above 0", option,
                speed);
}

void check(const Options& options) {
  check_ranges(options);
  dos::expect(!options.schedulers.empty(), "--schedulers names at least one");
  dos::expect(!options.simulated || DOS_STARPU_SIMULATES,
              "--simulated: this build's StarPU has no SimGrid: configure with 'cmake --preset "
              "simgrid' (docs/performance/simulated-nodes.md), or leave it out");
  dos::expect(
      options.simulated || options.gpus == 0,
      "--gpus {}: the graphs have no CUDA kernels, their GPUs are simulated: add --simulated "
      "or leave it out",
      options.gpus);
}

void run(const Options& options) {
  check(options);
  if (options.simulated) dos::bench::simulate(options.speeds);
  std::vector<std::map<std::string, std::vector<double>>> times(graphs().size());
  for (Index round = 0; round < options.rounds; ++round)
    for (const std::string& scheduler : options.schedulers) {
      const std::vector<double> ms = measure(scheduler, options);
      for (std::size_t graph = 0; graph < ms.size(); ++graph)
        times[graph][scheduler].push_back(ms[graph]);
    }
  const std::string& base = options.schedulers.front();
  nlohmann::json rows = nlohmann::json::array();
  if (!options.json)
    fmt::print("{:<12}{:<12}{:>28}{:>28}\n", "graph", "scheduler", "ms", base + " / it");
  for (std::size_t graph = 0; graph < times.size(); ++graph)
    for (const std::string& scheduler : options.schedulers) {
      const std::vector<double>& mine = times[graph][scheduler];
      std::vector<double> ratios;
      for (std::size_t i = 0; i < mine.size(); ++i)
        ratios.push_back(times[graph][base][i] / mine[i]);
      const Spread ms = dos::bench::spread_of(mine);
      const Spread ratio = dos::bench::spread_of(ratios);
      rows.push_back({{"graph", graphs()[graph].name},
                      {"scheduler", scheduler},
                      {"ms", ms.median},
                      {"ratio", ratio.median}});
      if (!options.json)
        fmt::print("{:<12}{:<12}{:>28}{:>28}\n", graphs()[graph].name, scheduler,
                   fmt::format("{:.2f} ({:.2f}-{:.2f})", ms.median, ms.min, ms.max),
                   fmt::format("{:.3f} ({:.3f}-{:.3f})", ratio.median, ratio.min, ratio.max));
    }
  if (options.json) fmt::print("{}\n", rows.dump());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  dos::apps::Parser app("Times task graphs under schedulers, in turn; columns in bench/README.md.");
  app.add_option("--schedulers", options.schedulers, "the first is compared with each")
      .capture_default_str();
  app.add_option("--rounds", options.rounds, "of all schedulers in turn").capture_default_str();
  app.add_option("--warm-up", options.warm_up, "runs of a graph before the one that counts")
      .capture_default_str();
  app.add_option("--tiles", options.tiles, "Cholesky: tiles a side").capture_default_str();
  app.add_option("--tile-size", options.tile_size, "floats a side").capture_default_str();
  app.add_option("--layers", options.training.layers, "training").capture_default_str();
  app.add_option("--width", options.training.width).capture_default_str();
  app.add_option("--lanes", options.training.lanes).capture_default_str();
  app.add_option("--rows", options.training.rows, "of a lane's activations").capture_default_str();
  app.add_option("--steps", options.training.steps).capture_default_str();
  app.add_option("--workers", options.cpu_workers, "CPU workers, -1: one a core")
      .capture_default_str();
  app.add_option("--opencl-devices", options.opencl_devices).capture_default_str();
  app.add_option("--gpus", options.gpus, "CUDA devices, simulated ones only").capture_default_str();
  app.add_flag("--simulated", options.simulated,
               "StarPU simulates: durations from --cpu-gflops and --gpu-gflops, unchecked results");
  app.add_option("--cpu-gflops", options.speeds.cpu).capture_default_str();
  app.add_option("--gpu-gflops", options.speeds.gpu).capture_default_str();
  app.add_flag("--json", options.json, "one JSON array instead of a table");
  if (const auto status = app.parse("sched_graphs", argc, argv)) return *status;
  try {
    dos::platform::blas::use_one_thread();
    run(options);
    dos::expect_output_written();
  } catch (const std::exception& error) {
    fmt::print(stderr, "sched_graphs: error: {}\n", error.what());
    return 1;
  }
  return 0;
}
