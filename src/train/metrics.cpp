// SPDX-License-Identifier: Apache-2.0
#include "train/metrics.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/log.hpp"
#include "train/metrics_history.hpp"

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

}  // namespace

std::string to_json_line(const StepMetrics& m) {
  const std::string flush =
      m.flush ? fmt::format(R"(,"mb_flushed":{},"ms_flush_waited":{})",
                            number(m.flush->megabytes, 6), number(m.flush->ms_waited, 6))
              : "";
  const std::string checkpoint =
      m.checkpoint
          ? fmt::format(
                R"(,"checkpoint_step":{},"checkpoint_committed":{},"checkpoint_s":{},"mb_checkpoint":{},"mb_checkpoint_linked":{},"mb_checkpoint_copied":{},"ms_checkpoint_waited":{},"ms_checkpoint_room":{})",
                m.checkpoint->step, m.checkpoint->is_committed ? 1 : 0,
                number(m.checkpoint->seconds, 6), number(m.checkpoint->megabytes, 6),
                number(m.checkpoint->megabytes_linked, 6),
                number(m.checkpoint->megabytes_copied, 6), number(m.checkpoint->ms_waited, 6),
                number(m.checkpoint->ms_room, 6))
          : "";
  const std::string disks = m.disks
                                ? fmt::format(R"(,"disk_read_bytes":{},"disk_written_bytes":{})",
                                              m.disks->read_bytes, m.disks->written_bytes)
                                : "";
  const std::string speculation =
      m.speculation
          ? fmt::format(R"(,"ahead":{},"redone":{},"ms_hidden":{},"ms_redone":{})",
                        m.speculation->ahead, m.speculation->redone,
                        number(m.speculation->ms_hidden, 6), number(m.speculation->ms_redone, 6))
          : "";
  std::string devices;
  for (const StepMetrics::Device& device : m.devices) {
    devices += fmt::format(R"(,"busy_{}":{})", device.name, number(device.busy, 3));
    if (device.updated)
      devices += fmt::format(R"(,"updated_{}":{})", device.name, number(*device.updated, 3));
  }
  const std::string targets = m.targets ? fmt::format(R"(,"targets":{})", *m.targets) : "";
  return fmt::format(
      R"({{"step":{},"loss":{},"lr":{},"grad_norm":{},"tokens":{},"tokens_per_s":{},"ms_step":{},)"
      R"("ms_forward":{},"ms_backward":{},"ms_update":{}{}{}{}{}{}{}}})",
      m.step, number(m.loss, 9), number(m.lr, 9), number(m.grad_norm, 9), m.tokens,
      number(m.tokens_per_s, 6), number(m.ms_step, 6), number(m.ms_forward, 6),
      number(m.ms_backward, 6), number(m.ms_update, 6), targets, flush, checkpoint, disks,
      speculation, devices);
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

MetricsFile::MetricsFile(const std::filesystem::path& path, Index last_step,
                         const nlohmann::json& runs)
    : path_(path) {
  keep_metrics_until(path_, last_step, runs);
  if (!runs.empty())
    end_ = fmt::format(R"(,"{}":{}}})"
                       "\n",
                       kRunKey, runs.back().at(kRunKey).get<Index>());
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_errno(path_.string() + ": cannot write", errno);
}

MetricsFile::~MetricsFile() {
  ::close(descriptor_);
}

int MetricsFile::write_rest() {
  while (!rest_.empty()) {
    const ssize_t count = ::write(descriptor_, rest_.data(), rest_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    rest_.erase(0, static_cast<std::size_t>(count));
  }
  return 0;
}

void MetricsFile::write(const std::string& line) {
  require(line.ends_with('}'), "a line is an object");
  const bool was_behind = !rest_.empty();
  rest_ += std::string_view(line).substr(0, line.size() - 1);
  rest_ += end_;
  const int error = write_rest();
  tell_if_removed();
  if (error == 0 && was_behind) log::info("{}: written again, no line is lost", path_.string());
  if (error != 0 && !was_behind)
    log::warn("{}: cannot write: {}; training goes on, and lines are kept until there is room",
              path_.string(), std::generic_category().message(error));
}

void MetricsFile::tell_if_removed() {
  struct stat now {};
  if (is_removed_ || ::fstat(descriptor_, &now) != 0 || now.st_nlink > 0) return;
  is_removed_ = true;
  log::warn(
      "{}: has been removed, and its lines are lost; training goes on, with checkpoints as long as "
      "the folder is there",
      path_.string());
}

void MetricsFile::finish() {
  const int error = write_rest();
  if (error != 0)
    fail_errno(fmt::format("{}: cannot write its last {} lines", path_.string(),
                           std::ranges::count(rest_, '\n')),
               error);
}

}  // namespace dos::train
