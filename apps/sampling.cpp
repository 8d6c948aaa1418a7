// SPDX-License-Identifier: Apache-2.0
// sampling: writes StarPU's bus model of machines from their machine files, for StarPU built for
// SimGrid.
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>

#include "apps/command_line.hpp"
#include "apps/machine_folders.hpp"
#include "apps/parser.hpp"
#include "apps/program.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/streams.hpp"
#include "perfmodels/starpu_bus.hpp"

namespace {

using namespace dos;

/// `folder`/<machine>: what STARPU_PERF_MODEL_DIR is to name.
void write_machine(const perfmodels::Machine& machine, const std::filesystem::path& folder) {
  const perfmodels::Rates rates =
      perfmodels::simulated_rates(perfmodels::rates_of(machine, 1), perfmodels::Links::kAlone);
  for (const perfmodels::BusFile& file :
       perfmodels::starpu_bus(machine.name, rates, machine.gpu_memory.value)) {
    const std::filesystem::path path = folder / machine.name / file.name;
    std::error_code cause;
    std::filesystem::create_directories(path.parent_path(), cause);
    expect(!cause, "--output: cannot create the folder {}: {}; choose a writable place",
           path.parent_path().string(), cause.message());
    write_durably(path, file.text);
  }
  streams::print("STARPU_PERF_MODEL_DIR={} STARPU_HOSTNAME={}\n", (folder / machine.name).string(),
                 machine.name);
}

void run(const std::vector<std::string>& names, const std::string& machines,
         const std::string& output) {
  for (const std::string& name : names.empty() ? perfmodels::machine_names(machines) : names) {
    const perfmodels::Machine machine = perfmodels::find_machine(name, machines);
    if (machine.gpus.value > 0)
      write_machine(machine, output);
    else
      expect(names.empty(), "machine {} has no GPU: there is no bus to describe", name);
  }
}

/// What --help and the manual page show beside the options.
dos::apps::Program described() {
  return {.name = "sampling",
          .examples = {{"sampling h100-4x --output models",
                        "then: STARPU_PERF_MODEL_DIR=models/h100-4x STARPU_HOSTNAME=h100-4x"}}};
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  std::string machines;
  std::string output;
  dos::apps::Parser app(
      "Writes StarPU's bus model of machine files, each with all GPUs of the node.");
  app.add_option("machine", names, "names or paths of machine files; all with GPUs if none");
  app.add_option("--output", output, "folder that gets a folder for each machine")
      .type_name("FOLDER")
      .required()
      .check(dos::apps::not_empty());
  app.add_option("--machines", machines,
                 "folder of the machine files; default: those that come with this program")
      .type_name("FOLDER")
      .check(dos::apps::not_empty());
  if (const auto status = dos::apps::read_command_line(app, described(), argc, argv))
    return *status;
  try {
    if (machines.empty()) machines = dos::apps::machine_folder().string();
    run(names, machines, output);
    expect_output_written();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return dos::apps::report_failure("sampling", error);
  }
}
