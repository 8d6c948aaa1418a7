// SPDX-License-Identifier: Apache-2.0
// How long whole task graphs take under schedulers, in turn within one process.
#include <fmt/format.h>
#include <starpu.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
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

/// Milliseconds of each graph under one scheduler; simulated ones where StarPU simulates.
std::vector<double> measure(const std::string& scheduler, const Options& options) {
  dos::rt::Session session({.scheduler = scheduler,
                            .cpu_workers = options.cpu_workers,
                            .opencl_workers = options.opencl_devices,
                            .cuda_workers = options.gpus,
                            .schedulers = dos::sched_starpu::policies()});
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

void run(const Options& options) {
  dos::expect(options.rounds >= 1 && options.warm_up >= 0, "--rounds is at least 1");
  dos::expect(!options.schedulers.empty(), "--schedulers names at least one");
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
  CLI::App app("Times task graphs under schedulers, in turn; columns in bench/README.md.");
  app.add_option("--schedulers", options.schedulers, "the first is compared with each")
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "of all schedulers in turn")->capture_default_str();
  app.add_option("--warm-up", options.warm_up, "runs of a graph before the one that counts")
      ->capture_default_str();
  app.add_option("--tiles", options.tiles, "Cholesky: tiles a side")->capture_default_str();
  app.add_option("--tile-size", options.tile_size, "floats a side")->capture_default_str();
  app.add_option("--layers", options.training.layers, "training")->capture_default_str();
  app.add_option("--width", options.training.width)->capture_default_str();
  app.add_option("--lanes", options.training.lanes)->capture_default_str();
  app.add_option("--rows", options.training.rows, "of a lane's activations")->capture_default_str();
  app.add_option("--steps", options.training.steps)->capture_default_str();
  app.add_option("--workers", options.cpu_workers, "CPU workers, -1: one a core")
      ->capture_default_str();
  app.add_option("--opencl-devices", options.opencl_devices)->capture_default_str();
  app.add_option("--gpus", options.gpus, "CUDA devices, simulated ones only")
      ->capture_default_str();
  app.add_flag("--simulated", options.simulated,
               "StarPU simulates: durations from --cpu-gflops and --gpu-gflops, unchecked results");
  app.add_option("--cpu-gflops", options.speeds.cpu)->capture_default_str();
  app.add_option("--gpu-gflops", options.speeds.gpu)->capture_default_str();
  app.add_flag("--json", options.json, "one JSON array instead of a table");
  CLI11_PARSE(app, argc, argv);
  try {
    dos::platform::blas::use_one_thread();
    run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "sched_graphs: error: {}\n", error.what());
    return 1;
  }
  return 0;
}
