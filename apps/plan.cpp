// SPDX-License-Identifier: Apache-2.0
// plan: says before a run whether a model fits a machine, how its update is divided, and how long a
// step takes.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <exception>
#include <limits>
#include <optional>

#include "apps/command_line.hpp"
#include "apps/machine_folders.hpp"
#include "apps/parser.hpp"
#include "apps/program.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/output_file.hpp"
#include "base/streams.hpp"
#include "config/config_file.hpp"
#include "config/plan_model.hpp"
#include "launch/rank_weights.hpp"
#include "planner/checkpoint_forecast.hpp"
#include "planner/plan_report.hpp"
#include "planner/scaling.hpp"
#include "planner/timeline.hpp"
#include "planner/validation.hpp"
#include "platform/crash_signals.hpp"
#include "sched/given_options.hpp"
#include "sched/policy_registry.hpp"

namespace {

struct CommandLine {
  std::string machine;
  std::string model;
  std::vector<std::string> assignments;
  std::string machines;
  std::string svg;
  bool json = false;
  bool validation = false;
  bool scaling = false;
  bool checkpoints = false;
  std::optional<double> write_rate;
  std::optional<double> total_write_rate;
  double mtbf_hours = 24;
  std::optional<dos::Index> micro_batch;
  std::optional<dos::Index> ranks_per_node;
  dos::planner::Request request;
};

std::string policy_footer() {
  std::string text = "Policies:\n";
  for (const dos::sched::Policy& policy : dos::sched::policies())
    text += fmt::format("  {:<24} {}\n", policy.name, policy.summary);
  return text + "\n" + dos::config::describe_plan_keys() +
         "\nOf a configuration of train_gpt count [model], [sched], dist.zero, train.precision,\n"
         "train.gpu_memory, train.host_memory, train.recompute, train.activations and "
         "train.batch,\n"
         "with train_gpt's defaults; --set and --micro-batch change them.\n";
}

/// The model, and what a configuration says unless the command line says otherwise.
void set_up(const CommandLine& command, dos::planner::Request& request) {
  using namespace dos;
  planner::PlanSettings given;
  for (const std::string& assignment : command.assignments)
    config::set_from_text(assignment, given);
  static_cast<void>(sched::find_policy(request.policy));
  // One configuration serves several policies; who gives an option here means this one.
  sched::expect_read(request.policy, given.policy, "sched.{} = {}");
  if (command.model.ends_with(".toml"))
    config::take_configuration(command.model, request);
  else
    request.model = config::find_planned_model(command.model);
  // Of the two the one given here counts.
  if (given.policy.stride) request.settings.policy.share.reset();
  if (given.policy.share) request.settings.policy.stride.reset();
  for (const std::string& assignment : command.assignments)
    config::set_from_text(assignment, request.settings);
  config::adapt_model(request);
  if (command.micro_batch) request.micro_batch = *command.micro_batch;
  expect(!command.ranks_per_node || *command.ranks_per_node >= 1,
         "--ranks-per-node {}: must be at least 1; leave it out for one a GPU",
         command.ranks_per_node.value_or(0));
  request.ranks_per_node = command.ranks_per_node.value_or(0);
}

/// Where checkpoints go, if one is to say what they cost.
std::optional<dos::planner::CheckpointStorage> storage_of(const CommandLine& command) {
  using namespace dos;
  if (!command.write_rate) {
    expect(!command.total_write_rate,
           "--total-write-rate: give --write-rate, that of one node, too");
    return std::nullopt;
  }
  const auto positive = [](const char* option, double value) {
    expect(value > 0 && std::isfinite(value), "{} {}: must be positive", option, value);
    return value;
  };
  planner::CheckpointStorage storage{
      .node = units::gigabytes_per_second(positive("--write-rate", *command.write_rate)),
      .total = units::BytesPerSecond(std::numeric_limits<double>::infinity()),
      .mtbf = units::Seconds(3600 * positive("--mtbf-hours", command.mtbf_hours))};
  if (command.total_write_rate)
    storage.total =
        units::gigabytes_per_second(positive("--total-write-rate", *command.total_write_rate));
  return storage;
}

void run(CommandLine& command) {
  using namespace dos;
  const perfmodels::Host here =
      command.machine == "this" ? launch::this_host() : perfmodels::Host{};
  if (command.machines.empty())
    command.machines =
        (here.name.empty() ? apps::machine_folder() : apps::folder_with(here.name)).string();
  if (command.validation) {
    streams::print("{}", planner::validation_tables(command.machines));
    return;
  }
  if (command.scaling) {
    streams::print("{}", planner::scaling_tables(command.machines, config::find_planned_model));
    return;
  }
  if (command.checkpoints) {
    streams::print("{}", planner::checkpoint_tables(command.machines, config::find_planned_model));
    return;
  }
  expect(!command.machine.empty() && !command.model.empty(), "give --machine and --model");
  if (!command.svg.empty()) expect_replaceable(command.svg, planner::kSvgMark);
  planner::Request& request = command.request;
  request.machine = perfmodels::find_machine(command.machine, command.machines, here);
  set_up(command, request);
  request.storage = storage_of(command);
  const planner::Forecast forecast = planner::forecast(request);
  const sched::Replay replay = sched::replay(forecast.problem, forecast.plan, /*record=*/true);
  if (!command.svg.empty()) {
    const std::string title = fmt::format("{} on {}: {}", request.model.name, request.machine.name,
                                          describe(forecast.plan, forecast.problem));
    write_replaceable(command.svg,
                      planner::timeline_svg(forecast.problem, forecast.plan, replay, title),
                      planner::kSvgMark);
  }
  streams::print("{}\n", command.json ? planner::report_json(request, forecast)
                                      : planner::report_text(request, forecast, replay));
}

/// What --help and the manual page show beside the options.
dos::apps::Program described() {
  return {
      .name = "plan",
      .examples = {{"plan --machine h100-4x --model llama-7b --ranks 4",
                    "does it fit, how long does a step take, and why"},
                   {"plan --machine this --model mine.toml --svg timeline.svg",
                    "for this machine, after calibrate, with the keys of a configuration file"}},
      .keys = dos::config::plan_keys(),
      .keys_in_help = dos::config::describe_plan_keys()};
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine command;
  dos::apps::Parser app("Plans a training step: memory, shares of CPU and GPU, times, bound.");
  app.footer(policy_footer());
  app.add_option("--machine", command.machine,
                 "a machine file's name or path, or 'this': what calibrate measured here")
      .check(dos::apps::not_empty());
  app.add_option(
         "--model", command.model,
         "a preset, a configuration file of train_gpt (.toml, see below), or hf:DIR: the model "
         "of DIR/config.json")
      .check(dos::apps::not_empty());
  app.add_option("--ranks", command.request.ranks, "ranks of the run").capture_default_str();
  app.add_option("--ranks-per-node", command.ranks_per_node,
                 "of several nodes; default: one a GPU, or all ranks on a node without GPU");
  app.add_option("--micro-batch", command.micro_batch,
                 "sequences on one rank [1, or train.batch of a configuration]");
  app.add_option("--policy", command.request.policy, "see below").capture_default_str();
  app.add_option("--set", command.assignments, "key=value, see below; repeatable")
      .type_name("KEY=VALUE")
      .allow_extra_args(false);
  app.add_option(
         "--machines", command.machines,
         "folder of the machine files; default: those that come with this program, and those "
         "of calibrate")
      .type_name("FOLDER")
      .check(dos::apps::not_empty());
  app.add_option("--svg", command.svg, "draw the timeline into this file")
      .type_name("FILE")
      .check(dos::apps::not_empty());
  app.add_option("--write-rate", command.write_rate,
                 "GB/s that a node writes durably: says what checkpoints cost");
  app.add_option("--total-write-rate", command.total_write_rate,
                 "GB/s of all nodes together, where they share a file system");
  app.add_option("--mtbf-hours", command.mtbf_hours,
                 "between failures of the job, for the interval of checkpoints")
      .capture_default_str();
  app.add_flag("--json", command.json, "print one JSON object");
  app.add_flag("--validation", command.validation,
               "print the model's predictions beside published measurements");
  app.add_flag("--checkpoints", command.checkpoints,
               "print what checkpoints of large models cost on a published cluster");
  app.add_flag("--scaling", command.scaling, "print predictions of runs on many ranks");
  dos::platform::say_at_crash("plan");
  if (const auto status = dos::apps::read_command_line(app, described(), argc, argv))
    return *status;
  try {
    run(command);
    dos::expect_output_written();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return dos::apps::report_failure("plan", error);
  }
}
