// SPDX-License-Identifier: Apache-2.0
#include "simulated/node_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"

namespace dos::bench {
namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "dos-node-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail_errno(name + ": cannot create", errno);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Units of memory, 2^20 bytes, of a GPU where 32 are much.
constexpr double kSmallGpu = 1024;

/// This process's environment without StarPU's settings, that would change what is simulated, and
/// with those of the node.
std::vector<std::string> node_environment(const NodeHost& node,
                                          const std::filesystem::path& folder) {
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each)
    if (std::strncmp(*each, "STARPU_", 7) != 0) variables.emplace_back(*each);
  // StarPU counts in units of 2^20 bytes.
  const double limit = std::ceil(node.gpu_memory.value() / (1 << 20));
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"STARPU_PERF_MODEL_DIR", folder.string()},
                                          {"STARPU_HOSTNAME", node.machine},
                                          {"STARPU_HOME", folder.string()},
                                          {"STARPU_SILENT", "1"},
                                          // Small buffers take memory 32 units at a time, of
                                          // which a small GPU has few.
                                          {"STARPU_SUBALLOCATOR", limit < kSmallGpu ? "0" : "1"},
                                          {"STARPU_LIMIT_CUDA_MEM", fmt::format("{:.0f}", limit)}})
    variables.push_back(name + "=" + value);
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Starts a program with its output in a file, and waits. The status as of waitpid.
int run_program(std::vector<std::string> arguments, std::vector<std::string> environment,
                const std::filesystem::path& output) {
  const std::string program = arguments.front();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT,
                                     S_IRUSR | S_IWUSR);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr,
                                  pointers_to(arguments).data(), pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail_errno(program + ": cannot start", error);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail_errno(program + ": cannot wait", errno);
  return status;
}

NodeTask task_of(const UpdatePhase& phase) {
  const sched::Problem& problem = phase.problem;
  return {.policy = phase.policy,
          .options = phase.options,
          .params = static_cast<Index>(problem.total().value()),
          .cut = phase.cut,
          .gpus = problem.gpus(),
          .cpu_workers = problem.rates.cpu_workers,
          .cpu_rate = problem.rates.cpu_worker.value(),
          .gpu_rate = problem.rates.gpus.front().update.value(),
          .steps = phase.steps,
          .warm_ups = phase.warm_ups,
          .slow = phase.slow};
}

}  // namespace

std::string run_on_node(const NodeHost& node, const std::filesystem::path& program,
                        const std::string& task) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "bus");
  for (const perfmodels::BusFile& file :
       perfmodels::starpu_bus(node.machine, node.rates, node.gpu_memory))
    write_durably(folder.path() / file.name, file.text);
  const std::filesystem::path output = folder.path() / "result.json";
  const int status = run_program({program.string(), task, "--log=root.thres:error"},
                                 node_environment(node, folder.path()), output);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0,
         "{}: ended with wait status {} on the simulated node of {}", program.string(), status,
         node.machine);
  return read_text(output);
}

NodeResult run_on_node(const UpdatePhase& phase, const std::filesystem::path& program) {
  return read_message<NodeResult>(run_on_node(
      {.machine = phase.machine, .rates = phase.problem.rates, .gpu_memory = phase.gpu_memory},
      program, write_message(task_of(phase))));
}

}  // namespace dos::bench
