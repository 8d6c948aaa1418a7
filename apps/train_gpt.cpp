// SPDX-License-Identifier: Apache-2.0
// train_gpt: trains a GPT on token files that prepare_data made.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdlib>
#include <exception>

#include "apps/command_line.hpp"
#include "apps/machine_folders.hpp"
#include "apps/parser.hpp"
#include "apps/program.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/local_time.hpp"
#include "base/log.hpp"
#include "base/mapped_file.hpp"
#include "base/streams.hpp"
#include "config/config_file.hpp"
#include "launch/handshake.hpp"
#include "launch/launch.hpp"
#include "launch/rank_place.hpp"
#include "platform/blas.hpp"
#include "platform/crash_signals.hpp"
#include "platform/mpi.hpp"
#include "platform/topology.hpp"
#include "ranks/agreed_error.hpp"
#include "train/stop_signal.hpp"

namespace {

struct CommandLine {
  dos::launch::LaunchOptions launch;
  std::string log_level = "info";
  std::string resume;
  bool print_config = false;
  bool print_topology = false;
};

/// A step of several Slurm tasks that MPI does not connect would be several trainings into one
/// folder.
void expect_connected(dos::Index ranks) {
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  dos::expect(
      ranks > 1 || tasks == nullptr || std::string(tasks) == "1",
      "Slurm started {} tasks that MPI does not connect: use srun --mpi=pmi2, or --ntasks=1",
      tasks == nullptr ? "no" : tasks);
}

void run(CommandLine& command, const dos::apps::Parser& app, dos::platform::MpiEnvironment& mpi) {
  dos::log::configure(command.log_level);
  if (app.count("--resume") > 0) command.launch.resume = command.resume;
  if (const char* scheduler = std::getenv("STARPU_SCHED")) command.launch.scheduler = scheduler;
  if (command.launch.machines.empty())
    command.launch.machines = dos::apps::folder_with(dos::platform::host_name());
  command.launch.quiet = command.launch.quiet || mpi.rank() != 0;
  if (command.print_config) {
    if (mpi.rank() != 0) return;
    dos::streams::print("{}",
                        dos::config::to_toml(dos::launch::merge_configuration(command.launch)));
    return;
  }
  dos::launch::launch(command.launch, mpi);
}

/// Before libraries are initialised, which takes a while.
[[gnu::used, gnu::section(".preinit_array")]] void (*const at_start)() = [] {
  dos::train::hold_stop_signals();
};

/// What --help and the manual page show beside the options.
dos::apps::Program described() {
  return {
      .name = "train_gpt",
      .examples = {{"train_gpt --out runs/mine --set data.path=data/mine --set "
                    "model.preset=small-3m --set train.steps=5000",
                    "trains a small model on the data that prepare_data wrote"},
                   {"train_gpt --config mine.toml --out runs/mine --resume auto",
                    "starts a run, or goes on with it"},
                   {"mpiexec -n 4 train_gpt --config mine.toml --out runs/mine --set dist.zero=2",
                    "on four ranks"}},
      .keys = dos::config::training_keys(),
      .keys_in_help = dos::config::describe_keys()};
}

}  // namespace

int main(int argc, char** argv) {
  dos::platform::blas::restart_with_better_kernels(argv);
  dos::train::catch_stop_signals(dos::train::Warnings::kHeld);
  CommandLine command;
  command.launch.out = fmt::format("runs/{:%Y%m%d-%H%M%S}", dos::local_time());
  dos::apps::Parser app("Trains a GPT on the StarPU task runtime.");
  app.footer(dos::config::describe_keys() +
             "\nSTARPU_SCHED names the scheduling policy (default dos). SIGINT, SIGTERM, SIGHUP, "
             "SIGXCPU and SIGUSR1 end the run after the "
             "current step, with a checkpoint; a third SIGINT or SIGTERM, 10 s or more after the "
             "first, ends it at once.\n\nA line of progress: loss (nats a token), "
             "grad_norm (norm of all gradients together, before optim.clip), lr (learning rate), "
             "tokens/s and ms of the step, time left.");
  app.add_option("--config", command.launch.config_file, "TOML file with configuration keys")
      .type_name("FILE")
      .check(dos::apps::not_empty());
  app.add_option("--set", command.launch.assignments,
                 "section.key=value, after the file; one each, repeatable")
      .type_name("KEY=VALUE")
      .allow_extra_args(false);
  app.add_option("--out", command.launch.out, "folder for metrics, run.json and checkpoints")
      .type_name("FOLDER")
      .default_str("runs/<date>-<time>")
      .check(dos::apps::not_empty());
  app.add_option("--resume", command.resume,
                 "continue from a checkpoint of --out: last (if no value is given), best, auto "
                 "(last if there "
                 "is one), a step, or a path")
      .expected(0, 1)
      .default_str("last");
  app.add_option("--init-from", command.launch.init_from,
                 "start with the weights and the model of a folder with config.json and "
                 "model.safetensors (docs/huggingface.md)")
      .type_name("FOLDER")
      .check(dos::apps::not_empty());
  app.add_option(
         "--lora-from", command.launch.lora_from,
         "with --init-from: go on with the adapters of a folder with adapter_config.json and "
         "adapter_model.safetensors (docs/finetuning.md)")
      .type_name("FOLDER")
      .check(dos::apps::not_empty());
  app.add_flag("--new-data", command.launch.new_data,
               "with --resume: go on with another data set than the checkpoint's, of the same "
               "tokenizer");
  app.add_flag("--verify", command.launch.verify,
               "read all of the data and compare checksums before the start, not beside training");
  app.add_flag("--dry-run", command.launch.dry_run, "print the memory estimate and stop");
  app.add_flag("--explain", command.launch.explain,
               "print at the end what the scheduler planned and what ran where");
  app.add_option("--trace", command.launch.trace,
                 "record a trace of the run into this folder; see "
                 "docs/traces.md")
      .type_name("FOLDER")
      .check(dos::apps::not_empty());
  app.add_option("--trace-steps", command.launch.trace_steps, "A:B: only these steps")
      .type_name("STEPS")
      .check(dos::apps::not_empty());
  app.add_option(
         "--machines", command.launch.machines,
         "folder of the machine files that calibrate writes, for dist.weights=auto; default: "
         "where it writes them")
      .type_name("FOLDER")
      .check(dos::apps::not_empty());
  app.add_flag("--print-config", command.print_config, "print the merged configuration and stop");
  app.add_flag("--print-topology", command.print_topology,
               "print the cores, NUMA nodes and GPUs of each rank, one line each, and stop");
  app.add_flag("--quiet", command.launch.quiet, "no progress lines");
  app.add_option("--log-level", command.log_level, "trace, debug, info, warn, error or off")
      .capture_default_str();
  dos::platform::say_at_crash("train_gpt");
  if (const auto status = dos::apps::read_command_line(app, described(), argc, argv))
    return *status;
  const auto report = [](const std::exception& error) {
    return dos::apps::report_failure("train_gpt", error);
  };
  try {
    dos::platform::MpiEnvironment mpi(argc, argv);
    dos::train::catch_stop_signals();
    dos::end_with_words_when_cut("train_gpt");
    // Inside, as the others may have to be waited for: MpiEnvironment::abandon().
    try {
      if (command.print_topology) {
        dos::streams::print("{}", dos::launch::topology_text(dos::launch::find_rank_place()));
        dos::expect_output_written();
        return EXIT_SUCCESS;
      }
      expect_connected(mpi.size());
      run(command, app, mpi);
      dos::expect_output_written();
      return EXIT_SUCCESS;
    } catch (const dos::ranks::AgreedError& error) {
      return mpi.rank() == 0 ? report(error) : EXIT_FAILURE;
    } catch (const std::exception& error) {
      return report(error);
    }
  } catch (const std::exception& error) {
    return report(error);
  }
}
