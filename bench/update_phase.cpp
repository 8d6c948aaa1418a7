// SPDX-License-Identifier: Apache-2.0
// update_phase: the update phase of a training step under a real scheduler, on a simulated node or
// on this machine's devices.
#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/parser.hpp"
#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "launch/rank_weights.hpp"
#include "simulated/node_process.hpp"
#include "update_here.hpp"

namespace {

using dos::Index;
using dos::bench::NodeResult;
using dos::bench::NodeStep;
using dos::bench::UpdatePhase;

struct CommandLine {
  dos::bench::Request request;
  std::string machines = (dos::data_folder() / "machines").string();
  bool json = false;
};

NodeStep mean_of(const std::vector<NodeStep>& steps) {
  NodeStep sum;
  for (const NodeStep& each : steps) {
    sum.seconds += each.seconds;
    sum.bytes_h2d += each.bytes_h2d;
    sum.bytes_d2h += each.bytes_d2h;
  }
  const auto count = static_cast<double>(steps.size());
  return {sum.seconds / count, sum.bytes_h2d / count, sum.bytes_d2h / count};
}

/// "64 subgroups of 200 M and ", empty without a front.
std::string large_of(const dos::sched::Cut& cut) {
  if (cut.large == 0) return "";
  return fmt::format("{} subgroups of {:.4g} M and ", cut.large,
                     static_cast<double>(cut.large_params) / 1e6);
}

void print_text(const UpdatePhase& phase, const char* where, const NodeResult& result,
                const NodeStep& mean, double rate, const dos::sched::Bound& bound,
                double bound_rate) {
  const dos::sched::Problem& problem = phase.problem;
  fmt::print(
      "{}: {} CPU workers, {} GPUs, {:.4g} GB of each for states ({})\n"
      "{} M parameters in {}{} subgroups of {:.4g} M, policy {}\n",
      phase.machine, problem.rates.cpu_workers, problem.gpus(),
      problem.memory.front().update.value() / 1e9, where, problem.total().value() / 1e6,
      large_of(phase.cut), std::ssize(problem.subgroups) - phase.cut.large,
      static_cast<double>(phase.cut.size) / 1e6, phase.policy);
  if (!result.plan.empty()) fmt::print("plan: {}\n", result.plan);
  if (!result.obstacle.empty()) fmt::print("no plan: {}\n", result.obstacle);
  fmt::print(
      "update: {:.1f} ms, {:.3f} Gparam/s, {:.1f} % of the bound ({:.3f} Gparam/s, {})\n"
      "copies: {:.2f} GB to GPUs, {:.2f} GB from GPUs\n",
      mean.seconds * 1e3, rate, 100 * rate / bound_rate, bound_rate, bound.binding,
      mean.bytes_h2d / 1e9, mean.bytes_d2h / 1e9);
  if (result.slow_seconds)
    fmt::print("with a slow device: {:.1f} ms\n", *result.slow_seconds * 1e3);
}

NodeResult result_of(const CommandLine& command, const UpdatePhase& phase) {
  const bool simulates = *DOS_NODE_PROGRAM != '\0';
  if (command.request.here) {
    dos::expect(!simulates,
                "--here: this build's StarPU has SimGrid and runs nothing: use another build");
    dos::expect(!phase.slow.is_asked_for(),
                "--slow-gpu and --slow-worker are simulated: leave out --here");
    return dos::bench::run_here(phase);
  }
  dos::expect(
      simulates,
      "this build's StarPU has no SimGrid, so there is nothing to simulate with: configure "
      "with 'cmake --preset simgrid' (docs/performance/simulated-nodes.md), or measure this "
      "machine with --here");
  return run_on_node(phase, DOS_NODE_PROGRAM);
}

void run(CommandLine command) {
  if (command.request.machine == "this") command.request.host = dos::launch::this_host();
  const UpdatePhase phase = dos::bench::prepare(command.request, command.machines);
  const NodeResult result = result_of(command, phase);
  const NodeStep mean = mean_of(result.steps);
  const dos::sched::Bound bound =
      dos::sched::lower_bound(phase.problem, {.residents = phase.options.residents});
  const double giga = phase.problem.total().value() / 1e9;
  const double rate = giga / mean.seconds;
  const double bound_rate = giga / bound.time.value();
  if (!command.json) {
    print_text(phase, command.request.here ? "measured" : "simulated", result, mean, rate, bound,
               bound_rate);
    return;
  }
  nlohmann::json steps = nlohmann::json::array();
  for (const NodeStep& each : result.steps) steps.push_back(each.seconds);
  nlohmann::json answer{{"machine", phase.machine},
                        {"policy", phase.policy},
                        {"subgroup_params", phase.cut.size},
                        {"large", phase.cut.large},
                        {"large_params", phase.cut.large_params},
                        {"gparams_per_s", rate},
                        {"bound_gparams_per_s", bound_rate},
                        {"fraction_of_bound", rate / bound_rate},
                        {"bytes_h2d", mean.bytes_h2d},
                        {"bytes_d2h", mean.bytes_d2h},
                        {"settling_seconds", result.settling},
                        {"step_seconds", steps},
                        {"binding", bound.binding},
                        {"gpu_share", result.gpu_share},
                        {"plan", result.plan},
                        {"obstacle", result.obstacle}};
  if (result.slow_seconds) answer["slow_step_seconds"] = *result.slow_seconds;
  fmt::print("{}\n", answer.dump());
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine command;
  dos::bench::Request& request = command.request;
  dos::apps::Parser app(
      "Runs the update of all parameters under a scheduler on a simulated node or on this machine, "
      "beside the bound; docs/performance/simulated-nodes.md.");
  app.add_option("--machine", request.machine,
                 "h100, a100, rtx4090, gh200, ...: a machine file's name or path, or 'this'")
      .required();
  app.add_flag("--here", command.request.here,
               "real updates on this machine's CUDA devices, or OpenCL devices where no NVIDIA GPU "
               "is; the machine file gives the bound");
  app.add_option("--params", request.params, "parameters of the rank: 5.12G, 16M, 5.12e9")
      .capture_default_str();
  app.add_option("--subgroup", request.subgroup,
                 "parameters of a subgroup; 0: the planner's choice")
      .capture_default_str();
  app.add_option(
         "--policy", request.policy,
         "dos, dos-stride, zero-offload, twinflow, gpu-only, or one of StarPU's: dmdas, lws")
      .capture_default_str();
  app.add_option("--gpu-memory", request.gpu_memory,
                 "GB of each GPU for states and their window; all that working parameters and "
                 "gradients leave if not given");
  app.add_option("--gpus", request.gpus, "GPUs of the rank, with their part of the node")
      .capture_default_str();
  app.add_option("--stride", request.options.stride, "every stride-th subgroup on a GPU");
  app.add_option("--share", request.options.share, "part of the parameters on GPUs, 0 to 1");
  app.add_option("--window", request.options.window, "streamed subgroups on a GPU at once");
  app.add_flag("!--no-residents", request.options.residents, "no state stays on a GPU");
  app.add_flag("--busy-links", request.busy_links,
               "links at the rates of link.*_cpu_busy, in simulation, plan and bound");
  app.add_option("--slow-gpu", request.slow.gpu,
                 "one more step, in which updates take so many times as long on the first GPU");
  app.add_option("--slow-worker", request.slow.worker, "the same on the first CPU worker");
  app.add_option("--steps", request.steps, "updates that count").capture_default_str();
  app.add_option("--warm-ups", request.warm_ups,
                 "updates before them: rates are learnt, states move")
      .capture_default_str();
  app.add_option("--machines", command.machines, "folder of the machine files")
      .capture_default_str();
  app.add_flag("--json", command.json, "one JSON object");
  if (const auto status = app.parse("update_phase", argc, argv)) return *status;
  try {
    run(command);
    dos::expect_output_written();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "update_phase: error: {}\n", error.what());
    return 1;
  }
}
