// SPDX-License-Identifier: Apache-2.0
#include "train/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <sstream>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"

namespace dos::train {
namespace {

/// JSON has no infinities and no NaN.
std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
}

/// Milliseconds in which a task of either phase ran.
double busy_ms_of(std::span<const rt::TaskRecord> records, rt::Phase a, rt::Phase b) {
  std::vector<rt::TaskRecord> joined(records.begin(), records.end());
  for (rt::TaskRecord& record : joined)
    if (record.tag.phase == b) record.tag.phase = a;
  return rt::busy_ms(joined, a);
}

/// The step of a whole line, or -1 for a torn one.
Index step_of(const std::string& line) {
  const auto json = try_parse_json_object(line);
  if (!json || !json->contains("step") || !json->at("step").is_number_integer()) return -1;
  return json->at("step").get<Index>();
}

}  // namespace

std::string to_json_line(const StepMetrics& m) {
  const std::string flush =
      m.flush ? fmt::format(R"(,"mb_flushed":{},"ms_flush_waited":{})",
                            number(m.flush->megabytes, 6), number(m.flush->ms_waited, 6))
              : "";
  return fmt::format(
      R"({{"step":{},"loss":{},"lr":{},"grad_norm":{},"tokens":{},"tokens_per_s":{},"ms_step":{},)"
      R"("ms_forward":{},"ms_backward":{},"ms_update":{}{}}})",
      m.step, number(m.loss, 9), number(m.lr, 9), number(m.grad_norm, 9), m.tokens,
      number(m.tokens_per_s, 6), number(m.ms_step, 6), number(m.ms_forward, 6),
      number(m.ms_backward, 6), number(m.ms_update, 6), flush);
}

std::string validation_json_line(Index step, double loss) {
  return fmt::format(R"({{"step":{},"val_loss":{}}})", step, number(loss, 9));
}

void StepClock::measure(std::span<const rt::TaskRecord> records, StepMetrics& metrics) {
  require(!records.empty(), "a step has tasks");
  double start = records.front().start_us;
  double end = records.front().end_us;
  for (const rt::TaskRecord& record : records) {
    start = std::min(start, record.start_us);
    end = std::max(end, record.end_us);
  }
  metrics.ms_step = (end - std::max(start, previous_end_us_)) / 1e3;
  std::vector<rt::TaskRecord> together(records.begin(), records.end());
  for (rt::TaskRecord& record : together) record.tag.phase = rt::Phase::kForward;
  metrics.ms_busy = rt::busy_ms(together, rt::Phase::kForward);
  metrics.ms_forward = rt::busy_ms(records, rt::Phase::kForward);
  metrics.ms_backward = rt::busy_ms(records, rt::Phase::kBackward);
  metrics.ms_update = busy_ms_of(records, rt::Phase::kUpdate, rt::Phase::kReduce);
  previous_end_us_ = end;
}

MetricsFile::MetricsFile(const std::filesystem::path& path, Index last_step) : path_(path) {
  if (std::filesystem::exists(path_)) {
    std::string kept;
    std::istringstream lines(read_text(path_));
    for (std::string line; std::getline(lines, line);) {
      const Index step = step_of(line);
      if (step >= 0 && step <= last_step) kept += line + "\n";
    }
    write_durably(path_, kept);
  }
  file_.open(path_, std::ios::app);
  if (!file_) fail_errno(path_.string() + ": cannot write", errno);
}

void MetricsFile::write(const std::string& line) {
  file_ << line << '\n' << std::flush;
  if (!file_) fail_errno(path_.string() + ": cannot write", errno);
}

}  // namespace dos::train
