// SPDX-License-Identifier: Apache-2.0
// simulated_step: whole training steps under a real scheduler on a simulated node, as a trace.
#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

#include "apps/parser.hpp"
#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "config/config_file.hpp"
#include "simulated/step_request.hpp"

namespace {

struct CommandLine {
  dos::bench::StepRequest request;
  std::vector<std::string> assignments;
  std::string machines = (dos::data_folder() / "machines").string();
};

void run(CommandLine command) {
  // What ranks exchange goes from GPU to GPU: nothing of it on the links that are simulated.
  command.request.settings.exchange = dos::planner::ExchangeWay::kCollective;
  for (const std::string& assignment : command.assignments)
    dos::config::set_from_text(assignment, command.request.settings);
  const dos::bench::SimulatedStep step = dos::bench::prepare(command.request, command.machines);
  dos::expect(*DOS_NODE_PROGRAM != '\0',
              "this build's StarPU has no SimGrid, so there is nothing to simulate with: configure "
              "with 'cmake --preset simgrid' (docs/performance/simulated-nodes.md)");
  const dos::bench::StepResult result = dos::bench::read_message<dos::bench::StepResult>(
      dos::bench::run_on_node(step.node, DOS_NODE_PROGRAM, write_message(step.task)));
  fmt::print("{}\n", nlohmann::json{{"machine", step.task.machine},
                                    {"model", step.task.model},
                                    {"policy", step.task.policy},
                                    {"subgroup_params", step.subgroup_params},
                                    {"subgroups", step.task.subgroups.size()},
                                    {"step_seconds", result.seconds},
                                    {"forward_seconds", step.phases.forward.value()},
                                    {"backward_seconds", step.phases.backward.value()},
                                    {"bound_seconds", step.bound.time.value()},
                                    {"binding", step.bound.binding},
                                    {"planned_seconds", step.planned.value()},
                                    {"link_bytes", result.link_bytes},
                                    {"on_disk", step.on_disk.value()},
                                    {"on_gpu", step.on_gpu.value()},
                                    {"in_host", step.in_host.value()},
                                    {"slots", step.task.slots},
                                    {"disk_bytes", result.disk_bytes},
                                    {"disk_busy_seconds", result.disk_busy},
                                    {"plan", result.plan},
                                    {"obstacle", result.obstacle}}
                         .dump());
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine command;
  dos::bench::StepRequest& request = command.request;
  dos::apps::Parser app(
      "Runs training steps of one rank on a simulated node and writes a trace of them; prints one "
      "JSON object. docs/characterisation.md.");
  app.add_option("--machine", request.machine, "h100-4x, a100, ...: a machine file's name or path")
      .required();
  app.add_option("--model", request.model, "llama-7b, llama-20b, ...").required();
  app.add_option("--trace", request.trace, "folder of the trace, for `report`").required();
  app.add_option("--ranks", request.ranks, "of the run; one a GPU of the machine if not given");
  app.add_option("--micro-batch", request.micro_batch, "sequences of a rank").capture_default_str();
  app.add_option("--policy", request.policy, "dos, dos-stride, zero-offload, twinflow, gpu-only")
      .capture_default_str();
  app.add_option(
      "--state-memory", request.state_memory,
      "GB of the GPU for states and their window; all that the model leaves if not given");
  app.add_option("--disk", request.disks,
                 "READ:WRITE or READ:WRITE:BOTH, GB/s: a disk of the node for states that "
                 "train.host_memory has no room for, beside the machine file's; repeatable");
  app.add_option("--steps", request.steps, "steps that are recorded").capture_default_str();
  app.add_flag("--ahead", request.goes_ahead, "updates go ahead of the norm (docs/speculation.md)");
  app.add_flag("--unclipped", request.is_unclipped,
               "as with optim.clip = 0: an update waits for its own gradient alone");
  app.add_option("--clipped-every", request.clipped_every,
                 "every so many steps one is clipped, and its updates are made again; 0: none")
      .capture_default_str();
  app.add_option("--set", command.assignments, "key=value of plan: sched.subgroup_params, ...");
  app.add_option("--machines", command.machines, "folder of the machine files")
      .capture_default_str();
  if (const auto status = app.parse("simulated_step", argc, argv)) return *status;
  try {
    run(command);
    dos::expect_output_written();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "simulated_step: error: {}\n", error.what());
    return 1;
  }
}
