// SPDX-License-Identifier: Apache-2.0
#include "watch/run_view.hpp"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "io/run_folder.hpp"
#include "io/run_lock.hpp"

namespace dos::watch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kMetrics = "metrics.jsonl";

/// A value inside run.json; null where an older or newer program has none.
json part_of(const json& run, std::initializer_list<const char*> names) {
  const json* part = &run;
  for (const char* name : names) {
    if (!part->is_object() || !part->contains(name)) return nullptr;
    part = &part->at(name);
  }
  return *part;
}

std::string text_in(const json& run, std::initializer_list<const char*> names) {
  const json part = part_of(run, names);
  return part.is_string() ? part.get<std::string>() : "";
}

/// A number above 0.
std::optional<Index> index_in(const json& run, std::initializer_list<const char*> names) {
  const json part = part_of(run, names);
  if (!part.is_number_integer() || part.get<Index>() <= 0) return std::nullopt;
  return part.get<Index>();
}

/// What is damaged says nothing: the run goes on without it.
Description describe(const fs::path& path) {
  if (!fs::exists(path)) return {};
  const json run = try_parse_json_object(read_text(path)).value_or(json::object());
  io::expect_known_format(path, run);
  Description description{.model = text_in(run, {"configuration", "model", "preset"}),
                          .precision = text_in(run, {"configuration", "train", "precision"}),
                          .scheduler = text_in(run, {"runtime", "scheduler"}),
                          .ranks = index_in(run, {"ranks"}),
                          .last_step = index_in(run, {"configuration", "train", "stop_after"})};
  if (description.model.empty()) description.model = text_in(run, {"model", "architecture"});
  if (!description.last_step)
    description.last_step = index_in(run, {"configuration", "train", "steps"});
  return description;
}

}  // namespace

RunView::RunView(fs::path folder) : folder_(std::move(folder)), metrics_(folder_ / kMetrics) {
  std::error_code error;
  expect(fs::is_directory(folder_, error),
         "{}: no such folder; give the one that train_gpt --out wrote", folder_.string());
  const fs::path whole = fs::weakly_canonical(folder_, error);
  name_ = one_line((error ? folder_ : whole).filename().string());
}

void RunView::look() {
  description_ = describe(folder_ / io::kRunInfo);
  is_running_ = io::is_locked(folder_);
  const fs::path metrics = folder_ / kMetrics;
  std::error_code error;
  const auto written = fs::last_write_time(metrics, error);
  if (error && fs::exists(folder_ / io::kRunInfo)) return;  // the first step is on its way
  expect(!error, "{}: {}; is {} the folder of a run?", metrics.string(), error.message(),
         folder_.string());
  metrics_.read();
  const std::chrono::duration<double> age = fs::file_time_type::clock::now() - written;
  age_s_ = std::max(0.0, age.count());
}

bool RunView::has_ended() const {
  return !is_running_ && description_.last_step && metrics_.last_step() >= *description_.last_step;
}

}  // namespace dos::watch
