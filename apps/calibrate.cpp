// SPDX-License-Identifier: Apache-2.0
// calibrate: measures the rates of this machine that plans are made from.
#include <cstdlib>
#include <exception>

#include "apps/command_line.hpp"
#include "apps/machine_folders.hpp"
#include "apps/parser.hpp"
#include "apps/program.hpp"
#include "base/file.hpp"
#include "calibration/calibrate.hpp"
#include "platform/blas.hpp"
#include "platform/crash_signals.hpp"
#include "platform/topology.hpp"

namespace {

/// What --help and the manual page show beside the options.
dos::apps::Program described() {
  return {
      .name = "calibrate",
      .examples = {{"calibrate",
                    "measures this machine, when nothing else runs on it, for plan --machine this"},
                   {"calibrate --disk nvme=/scratch:400GB --output machines/node7.toml",
                    "the disk of a folder as well, into a file of your own"}}};
}

}  // namespace

int main(int argc, char** argv) {
  dos::platform::blas::restart_with_better_kernels(argv);
  dos::calibration::Options options;
  dos::apps::Parser app(
      "Measures this machine: rates of updates, memory and links, for plan --machine this.");
  app.footer(
      "Prints every rate with its spread, and what has changed since the last calibration. Writes\n"
      "nothing when readings are too noisy. docs/calibration.md says how each rate is measured.");
  app.add_option("--output", options.output,
                 "the machine file to write; default: <host>.toml where plan --machine this looks")
      .type_name("FILE")
      .check(dos::apps::not_empty());
  app.add_option("--subgroup-params", options.subgroup_params,
                 "sizes of which StarPU gets history models, as sched.subgroup_params; a list")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--rule", options.rule, "update rule, as optim.rule").capture_default_str();
  app.add_option("--precision", options.precision,
                 "fp32, or bf16: gradients and working parameters in BF16")
      .capture_default_str();
  app.add_option("--workers", options.workers, "CPU workers, 0: as many as StarPU takes")
      .capture_default_str();
  app.add_option("--cuda-devices", options.cuda_devices, "CUDA devices, -1: all")
      .capture_default_str();
  app.add_option("--opencl-devices", options.opencl_devices,
                 "OpenCL devices, as train.opencl_devices, -1: all")
      .capture_default_str();
  app.add_option(
         "--disk", options.disks,
         "NAME=FOLDER[:SIZE]: measure the disk of a folder as tier NAME, for SIZE of states "
         "(400GB); repeatable")
      .type_name("NAME=FOLDER")
      .allow_extra_args(false);
  app.add_option("--max-spread", options.most_spread,
                 "refuse rates whose interquartile range is a larger part of the median")
      .capture_default_str();
  app.add_flag("--allow-noise", options.allow_noise, "accept noisy rates; the file says how noisy");
  app.add_flag("--force", options.force, "replace a file that is not this machine's calibration");
  app.add_flag("--quick", options.quick, "little data, a few seconds: rates are rough");
  dos::platform::say_at_crash("calibrate");
  if (const auto status = dos::apps::read_command_line(app, described(), argc, argv))
    return *status;
  try {
    if (options.output.empty()) {
      const std::filesystem::path folder = dos::apps::folder_to_write();
      dos::apps::make_folder_to_write(folder);
      options.output = folder / (dos::platform::host_name() + ".toml");
    }
    dos::calibration::calibrate(options);
    dos::expect_output_written();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return dos::apps::report_failure("calibrate", error);
  }
}
