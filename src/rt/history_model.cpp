// SPDX-License-Identifier: Apache-2.0
#include "rt/history_model.hpp"

#include <starpu.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "rt/history_format.hpp"
#include "rt/locked_file.hpp"
#include "rt/session.hpp"

namespace dos::rt {
namespace {

namespace fs = std::filesystem;

/// The first line that is no comment.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (!line.empty() && line.front() != '#') return line;
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return {};
}

struct HistoryFile {
  fs::path path;
  Index version = 0;
};

/// Where StarPU would read the codelet's model from, if it has such a place.
std::optional<HistoryFile> find_history(const char* symbol) {
  std::array<char, 4096> path{};
  starpu_perfmodel_get_model_path(symbol, path.data(), path.size());
  if (path.front() == '\0') return std::nullopt;
  HistoryFile file{.path = fs::path(path.data()).lexically_normal()};
  // StarPU's version of the format is nowhere but in the name of the folder: ".../codelets/45/".
  const std::string folder = file.path.parent_path().filename().string();
  const auto [stop, error] =
      std::from_chars(folder.data(), folder.data() + folder.size(), file.version);
  if (error != std::errc{}) return std::nullopt;
  return file;
}

/// What is wrong with the model, "" when nothing is.
std::string fault_of(const fs::path& file, Index version, const std::string& starpu) {
  std::error_code ignored;
  const fs::file_status status = fs::status(file, ignored);
  if (!fs::exists(status)) return "";
  if (!fs::is_regular_file(status))
    return fmt::format("{}: no performance model, as it is no regular file", file.string());
  const std::string text = read_locked(file);
  // StarPU passes over a file of no bytes.
  if (text.empty()) return "";
  const std::string_view start = first_line(text);
  if (start.empty())
    return fmt::format("{}: no performance model, it has no version", file.string());
  Index found = 0;
  const auto [stop, error] = std::from_chars(start.data(), start.data() + start.size(), found);
  if (error != std::errc{})
    return fmt::format("{}: no performance model, it starts with '{}'", file.string(),
                       start.substr(0, 20));
  if (found != version)
    return fmt::format("{}: a performance model of version {}, StarPU {} reads version {}",
                       file.string(), found, starpu, version);
  if (version != kHistoryFormat) return "";
  try {
    expect_history_text(text);
  } catch (const Error& fault) {
    return fmt::format("{}: a damaged performance model, {}", file.string(), fault.what());
  }
  return "";
}

}  // namespace

void expect_history(const fs::path& file, Index version, const std::string& starpu) {
  const std::string fault = fault_of(file, version, starpu);
  expect(fault.empty(), "{}: delete it and run calibrate, which measures it anew", fault);
}

void expect_readable_history(const char* symbol) {
  if (const auto file = find_history(symbol))
    expect_history(file->path, file->version, Session::version());
}

std::string set_unreadable_history_aside(const char* symbol) {
  const std::optional<HistoryFile> file = find_history(symbol);
  if (!file) return "";
  const std::string fault = fault_of(file->path, file->version, Session::version());
  if (fault.empty()) return "";
  const fs::path aside = file->path.string() + ".damaged";
  std::error_code error;
  fs::rename(file->path, aside, error);
  expect(!error, "{}; it cannot be renamed to {}: {}: delete it", fault, aside.string(),
         error.message());
  return fmt::format("{}: renamed to {}", fault, aside.filename().string());
}

}  // namespace dos::rt
