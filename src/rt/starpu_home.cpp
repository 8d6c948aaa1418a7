// SPDX-License-Identifier: Apache-2.0
#include "rt/starpu_home.hpp"

#include <starpu_config.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "base/log.hpp"

namespace dos::rt {
namespace {

namespace fs = std::filesystem;

/// What StarPU looks at for a home, in its order.
#if STARPU_MAJOR_VERSION == 1 && STARPU_MINOR_VERSION < 4
constexpr std::array kHomes{"XDG_CACHE_HOME", "STARPU_HOME", "HOME", "TMPDIR", "TEMP", "TMP"};
#else
constexpr std::array kHomes{"STARPU_HOME", "XDG_CACHE_HOME", "HOME", "TMPDIR", "TEMP", "TMP"};
#endif

constexpr const char* kFolderVariable = "STARPU_PERF_MODEL_DIR";

struct Place {
  fs::path sampling;
  std::string variable;
};

Place chosen_place() {
  if (const char* folder = std::getenv(kFolderVariable)) return {folder, kFolderVariable};
  for (const char* name : kHomes)
    if (const char* home = std::getenv(name)) {
      const fs::path folder(home);
      return {folder.empty() ? folder : folder / ".starpu/sampling", name};
    }
  return {"/tmp/.starpu/sampling", "HOME"};
}

std::string reason(int errno_value) {
  return std::generic_category().message(errno_value);
}

constexpr const char* kProbe = "dos-probe-";

/// "" when a file can be made and filled in the folder.
std::string obstacle_to_writing(const fs::path& folder) {
  std::string name = folder / (std::string(kProbe) + "XXXXXX");
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0) return reason(errno);
  constexpr std::array<char, 4096> kPage{};
  const bool is_written = ::write(descriptor, kPage.data(), kPage.size()) == std::ssize(kPage);
  const int cause = errno;
  ::close(descriptor);
  ::unlink(name.c_str());
  return is_written ? "" : reason(cause);
}

fs::path make_private_folder() {
  const std::array<const char*, 5> parents{std::getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm",
                                           "."};
  for (const char* parent : parents) {
    if (parent == nullptr) continue;
    std::error_code failed;
    std::string name = fs::absolute(parent, failed) / "dos-starpu-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) continue;
    if (obstacle_to_measurements(fs::path(name) / ".starpu/sampling").empty()) return name;
    fs::remove_all(name, failed);
  }
  return {};
}

void copy_measurements(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  fs::create_directories(to, ignored);
  // What cannot be copied is measured again.
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::overwrite_existing, ignored);
}

}  // namespace

std::string obstacle_to_measurements(const fs::path& sampling) {
  // StarPU cuts paths off at 256 characters; names of files come behind this.
  constexpr std::size_t kLongest = 140;
  if (sampling.native().size() > kLongest)
    return fmt::format("a path of more than {} characters", kLongest);
  if (sampling.empty()) return "an empty path";
  for (const char* part : {"codelets", "bus"}) {
    std::error_code failed;
    fs::create_directories(sampling / part, failed);
    if (failed) return failed.message();
    std::string obstacle = obstacle_to_writing(sampling / part);
    if (!obstacle.empty()) return obstacle;
  }
  std::error_code failed;
  for (const auto& version : fs::directory_iterator(sampling / "codelets", failed)) {
    // Another process may be looking, too.
    if (version.path().filename().native().starts_with(kProbe)) continue;
    std::string obstacle =
        version.is_directory(failed) ? obstacle_to_writing(version.path()) : "Not a directory";
    if (!obstacle.empty()) return obstacle;
  }
  return failed ? failed.message() : "";
}

StarpuHome::StarpuHome(const fs::path& kept, ScopedEnvironment& environment) : kept_(kept) {
  const Place place = chosen_place();
  const std::string obstacle = obstacle_to_measurements(place.sampling);
  if (obstacle.empty()) return;
  private_ = make_private_folder();
  expect(!private_.empty(),
         "StarPU cannot keep measurements in {} ({}), nor below TMPDIR or /tmp: set STARPU_HOME to "
         "a folder that can be written",
         place.sampling.string(), obstacle);
  const fs::path sampling = private_ / ".starpu/sampling";
  copy_measurements(place.sampling, sampling);
  if (!kept_.empty()) copy_measurements(kept_, sampling);
  log::warn(
      "StarPU cannot keep measurements in {}, from {} ({}): uses {}; set STARPU_HOME to a folder "
      "that can be written",
      place.sampling.string(), place.variable, obstacle,
      kept_.empty() ? "a temporary folder" : kept_.string());
  for (const char* name : {"XDG_CACHE_HOME", kFolderVariable, "STARPU_HOME"})
    environment.remove(name);
  environment.set_default("STARPU_HOME", private_.c_str());
}

StarpuHome::~StarpuHome() {
  if (private_.empty()) return;
  std::error_code ignored;
  if (!kept_.empty() && fs::is_directory(kept_.parent_path(), ignored))
    copy_measurements(private_ / ".starpu/sampling", kept_);
  fs::remove_all(private_, ignored);
}

}  // namespace dos::rt
