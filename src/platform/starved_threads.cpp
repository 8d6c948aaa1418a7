// SPDX-License-Identifier: Apache-2.0
#include "platform/starved_threads.hpp"

#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace dos::platform {
namespace {

/// Field 3: behind the name, which may hold anything.
bool is_able_to_run(const std::filesystem::path& task) {
  std::ifstream file(task / "stat");
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text.compare(name_end + 2, 1, "R") == 0;
}

/// Nanoseconds on a processor, and how often it got one; "": the system does not tell.
std::string what_it_ran(const std::filesystem::path& task) {
  std::ifstream file(task / "schedstat");
  std::string nanoseconds;
  std::string waited;
  std::string times;
  return file >> nanoseconds >> waited >> times ? nanoseconds + " " + times : std::string();
}

}  // namespace

bool StarvedThreads::look() {
  bool is_starved = false;
  std::map<std::string, std::string> able;
  std::error_code cause;
  for (std::filesystem::directory_iterator task(tasks_, cause), end; !cause && task != end;
       task.increment(cause)) {
    if (!is_able_to_run(task->path())) continue;
    const std::string name = task->path().filename().string();
    const std::string ran = what_it_ran(task->path());
    const auto before = able_.find(name);
    is_starved = is_starved || (!ran.empty() && before != able_.end() && before->second == ran);
    able.emplace(name, ran);
  }
  able_ = std::move(able);
  return is_starved;
}

}  // namespace dos::platform
