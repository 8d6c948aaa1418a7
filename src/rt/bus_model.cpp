// SPDX-License-Identifier: Apache-2.0
#include "rt/bus_model.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/types.hpp"
#include "rt/locked_file.hpp"
#include "rt/starpu_version.hpp"

namespace dos::rt {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

bool is_older_than_1_4() {
  const StarpuVersion version = loaded_starpu();
  return version.major == 1 && version.minor < 4;
}

/// As StarPU names it in its files.
std::string host() {
  if (const auto name = variable("STARPU_HOSTNAME"); name && !name->empty()) return *name;
  std::array<char, HOST_NAME_MAX + 1> name{};
  ::gethostname(name.data(), name.size() - 1);
  const std::string whole = name.data();
  return whole.substr(0, whole.find('.'));
}

/// Where StarPU looks for measurements, first to last.
std::vector<fs::path> folders() {
  std::vector<fs::path> result;
  const std::optional<std::string> chosen = variable("STARPU_PERF_MODEL_DIR");
  if (chosen) result.emplace_back(*chosen);
  // 1.3 looks nowhere else then, and prefers the other variable.
  const bool is_old = is_older_than_1_4();
  if (chosen && is_old) return result;
  const auto homes = is_old ? std::array{"XDG_CACHE_HOME", "STARPU_HOME", "HOME"}
                            : std::array{"STARPU_HOME", "XDG_CACHE_HOME", "HOME"};
  for (const char* name : homes) {
    const std::optional<std::string> home = variable(name);
    if (!home) continue;
    result.push_back(fs::path(*home) / ".starpu" / "sampling");
    break;
  }
  return result;
}

/// How many lines start with a whole number, up to the first that does not; comments are none.
Index count_numbers(std::string_view text) {
  Index count = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    unsigned value = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), value).ec != std::errc{}) break;
    ++count;
  }
  return count;
}

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

void expect_regular(const fs::path& file) {
  std::error_code ignored;
  const fs::file_status status = fs::status(file, ignored);
  expect(!fs::exists(status) || fs::is_regular_file(status),
         "{}: no measurement of the links, as it is no regular file: delete it, StarPU measures "
         "them anew",
         file.string());
  expect(!fs::exists(status) || ::access(file.c_str(), R_OK) == 0,
         "{}: a measurement of the links that may not be read: allow that, or set STARPU_HOME to a "
         "folder of your own",
         file.string());
}

/// Removes it, and `config` of the same measurement: without that StarPU measures all again, so
/// that nothing is lost.
void remove_damaged(const fs::path& file, const fs::path& config, std::string_view what) {
  for (const fs::path& each : {file, config}) {
    std::error_code failed;
    fs::remove(each, failed);
    expect(!failed,
           "{}: a damaged description of the links, {}, and {} cannot be deleted ({}): delete it, "
           "StarPU measures the links anew",
           file.string(), what, each.string(), failed.message());
  }
  log::warn("{}: a damaged description of the links, {}: deleted, StarPU measures them anew",
            file.string(), what);
}

}  // namespace

bool mend_bus_files(const fs::path& stem, bool measures) {
  const auto file = [&](const char* kind) { return fs::path(stem.string() + kind); };
  for (const char* kind : {".config", ".affinity", ".bandwidth", ".latency"})
    expect_regular(file(kind));
  // Without the first StarPU writes all of them; the last two it checks itself.
  if (measures || !is_there(file(".config"))) return true;
  constexpr Index kNumbers = 4;
  if (count_numbers(read_locked(file(".config"))) < kNumbers) {
    remove_damaged(file(".config"), file(".config"), "it does not say for which devices it is");
    return true;
  }
  if (is_there(file(".affinity")) && read_locked(file(".affinity")).empty()) {
    remove_damaged(file(".affinity"), file(".config"), "it is empty");
    return true;
  }
  return false;
}

bool mend_bus(bool measures) {
  const std::string name = host();
  const std::vector<fs::path> all = folders();
  for (const fs::path& folder : all) {
    const fs::path stem = folder / "bus" / name;
    const bool is_used = is_there(stem.string() + ".config") || &folder == &all.back();
    if (is_used) return mend_bus_files(stem, measures);
  }
  return true;
}

}  // namespace dos::rt
