// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "offload/away_states.hpp"
#include "rt/profile.hpp"

namespace dos::train {

/// One line of metrics.jsonl. Times in milliseconds. ms_step is the time from the end of the
/// previous step's last task (or this step's first start, if later) to the end of this step's last
/// task; ms_forward, ms_backward and ms_update are the time within which at least one task of the
/// phase was executing: steps and phases overlap, so they need not add up. ms_update counts norms,
/// clipping and updates.
struct StepMetrics {
  Index step = 0;   ///< counted from 1
  double loss = 0;  ///< mean over the step's targets, nats
  double lr = 0;
  double grad_norm = 0;  ///< before clipping
  Index tokens = 0;      ///< trained on since the start of the run
  double tokens_per_s = 0;
  double ms_step = 0;
  double ms_forward = 0;
  double ms_backward = 0;
  double ms_update = 0;
  double ms_busy = 0;  ///< within which a task of the step ran; not written
  /// On machines with devices of their own memory, under one of our policies: gradients of the
  /// CPU's updates that left a device during backward, and the time that the CPU workers, on
  /// average, waited for the data of updates all the same.
  struct Flush {
    double megabytes = 0;
    double ms_waited = 0;
  };
  std::optional<Flush> flush{};
  /// A checkpoint that ended since the step before, or was left out; the last of several.
  struct Checkpoint {
    Index step = 0;               ///< that it is of
    bool is_committed = false;    ///< it is there, not given up, dropped or left out
    double seconds = 0;           ///< of writing and committing it (checkpoint::Outcome)
    double megabytes = 0;         ///< that this rank wrote
    double megabytes_linked = 0;  ///< that lay on its disks already
    double megabytes_copied = 0;  ///< of the former, so that an update did not wait
    double ms_waited = 0;         ///< for which an update waited for nothing else
    double ms_room = 0;           ///< for which the submitting thread waited before it could begin
  };
  std::optional<Checkpoint> checkpoint{};
  /// States on disks: what was moved since the step before.
  std::optional<offload::DiskTraffic> disks{};
  /// Where updates may go ahead of the clip factor: how many have, and how many were made again;
  /// the time before the end of backward within which some ran, and that within which some were
  /// made again.
  struct Speculation {
    Index ahead = 0;
    Index redone = 0;
    double ms_hidden = 0;
    double ms_redone = 0;
  };
  std::optional<Speculation> speculation{};
  std::optional<Index> targets{};  ///< of the step, where not all of its tokens count
  /// What a device of this rank had of the step.
  struct Device {
    std::string name;  ///< "cpu", "cuda0"
    /// Of ms_step, the part in which its workers, on average, ran the step's tasks. Those that run
    /// beside the step before count, too: a mean over steps is below 1, a single one need not be.
    double busy = 0;
    std::optional<double> updated{};  ///< part of the parameters; nothing where it is the only one
  };
  std::vector<Device> devices{};
};

/// {"step":1,"loss":...}: losses with 9 significant digits; targets where not all tokens count;
/// mb_flushed and ms_flush_waited where there is a flush; disk_read_bytes and disk_written_bytes
/// where states live on disks; ahead, redone, ms_hidden and ms_redone where updates may go
/// ahead; busy_NAME and, where
/// there are several devices, updated_NAME of each.
std::string to_json_line(const StepMetrics& metrics);
/// {"step":100,"val_loss":...}
std::string validation_json_line(Index step, double loss);

/// Turns the records of consecutive steps into times.
class StepClock {
 public:
  /// Fills the ms_ members from the records of one step's tasks.
  void measure(std::span<const rt::TaskRecord> records, StepMetrics& metrics);

 private:
  double previous_end_us_ = 0;
};

/// metrics.jsonl of a run, one JSON object a line, each handed to the system when write() returns:
/// a killed run has all its lines, a machine without power may lose the last ones.
class MetricsFile {
 public:
  /// Appends to the file, which is first made the history of a run that goes on after `last_step`,
  /// the last of `runs` (metrics_history.hpp). Throws Error when it cannot.
  MetricsFile(const std::filesystem::path& path, Index last_step,
              const nlohmann::json& runs = nullptr);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

  /// Appends a line, a JSON object that is not empty, and the run to it. When the disk is full,
  /// say, it is kept and written with the next one that can be, and a warning says so once; another
  /// when the file has been removed meanwhile.
  void write(const std::string& line);
  /// The last line was written. Throws Error naming the file when some could not be.
  void finish();

 private:
  /// The error that ends it; 0: all is written.
  int write_rest();
  void tell_if_removed();

  std::filesystem::path path_;
  std::string end_ = "}\n";  ///< of every line
  std::string rest_;         ///< that is not written yet
  int descriptor_ = -1;
  bool is_removed_ = false;  ///< and that is told
};

}  // namespace dos::train
