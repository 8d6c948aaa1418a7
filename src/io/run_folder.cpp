// SPDX-License-Identifier: Apache-2.0
#include "io/run_folder.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "io/checkpoint_directory.hpp"

namespace dos::io {
namespace {

using nlohmann::json;

/// " 0.7.0", as far as it is said.
std::string release_of(const json& run) {
  const auto program = run.find("program");
  if (program == run.end() || !program->is_object()) return "";
  const auto version = program->find("version");
  if (version == program->end() || !version->is_string()) return "";
  return ", " + one_line(version->get<std::string>());
}

}  // namespace

std::filesystem::path run_of(const std::filesystem::path& named) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(named, error);
  const bool is_inside = !error && folder.filename() == kCheckpointsName &&
                         !std::filesystem::is_directory(folder / kCheckpointsName, error) &&
                         std::filesystem::exists(folder.parent_path() / kRunInfo, error);
  return is_inside ? folder.parent_path() : named;
}

void expect_known_format(const std::filesystem::path& path, const json& run) {
  const auto format = run.find("format");
  if (format == run.end() || !format->is_number_integer() || *format <= kRunFormat) return;
  fail("{}: format {}, but this program reads up to {}; use the one of the release that wrote it{}",
       path.string(), format->dump(), kRunFormat, release_of(run));
}

void expect_known_run(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kRunInfo;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  if (const auto run = try_parse_json_object(read_text(path))) expect_known_format(path, *run);
}

}  // namespace dos::io
