// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fit/device_memory.hpp"
#include "models/decoder.hpp"
#include "optim/elementwise.hpp"
#include "rt/device.hpp"
#include "rt/profile.hpp"
#include "rt/session.hpp"
#include "rt/submitter.hpp"
#include "sched_starpu/step_report.hpp"
#include "spread.hpp"
#include "tensor/parameter_set.hpp"
#include "train/metrics.hpp"
#include "train/run.hpp"
#include "train/step_results.hpp"

namespace dos::bench {

struct StepOptions {
  std::string model = "gpt2-124m";
  Index batch = 4;
  Index accumulate = 1;
  Index context = 256;
  Index vocab = 0;
  Index lanes = 0;
  Index workers = -1;
  Index cuda_devices = 0;
  Index steps = 10;
  Index warmup = 2;
  Index subgroup_params = 5'000'000;
  double state_memory = -1;  ///< GB; -1: what the devices have
  std::string precision = "fp32";
  std::string gradient_precision = "fp32";
  std::string products = "auto";
  std::string attention = "auto";
  std::string scheduler;
  std::string machine;  ///< path of the file that calibrate wrote here; empty: none
  bool recompute = false;
  bool json = false;
  bool dry_run = false;
};

/// What the options come to, before anything is allocated.
struct StepPlan {
  train::Run run;  ///< what train_gpt would be told
  /// Of each CUDA device, that StarPU may use; 0: what it finds.
  Index device_memory = 0;
};

/// Throws Error for options out of range.
StepPlan plan_of(const StepOptions& options);

/// What the counted steps took.
class Readings {
 public:
  void add(const train::StepMetrics& metrics, const std::vector<rt::TaskRecord>& records,
           const sched_starpu::StepReport& updates);

  /// All tasks of the run, for the idle share: those of warm-up steps may reach into counted ones.
  void add_tasks(const std::vector<rt::TaskRecord>& records, bool counted);

  [[nodiscard]] Spread time(const std::string& name) const { return spread_of(times_.at(name)); }
  /// Between the end of the warm-up and the end of the last counted step.
  [[nodiscard]] double idle_share(Index workers) const;
  /// (milliseconds of worker time a step, codelet), longest first.
  [[nodiscard]] std::vector<std::pair<double, std::string>> by_codelet() const;
  /// Part of the parameters that devices were to update; 0 where no policy of ours says.
  [[nodiscard]] double planned_share() const { return planned_ / total_; }
  /// Part that they did update.
  [[nodiscard]] double executed_share() const { return executed_ / total_; }

 private:
  std::map<std::string, std::vector<double>> times_;
  std::map<std::string, double> by_codelet_;
  std::vector<std::pair<double, double>> tasks_;
  double warmup_end_us_ = 0;
  double counted_end_us_ = 0;
  int steps_ = 0;
  units::Params planned_{};
  units::Params executed_{};
  units::Params total_{1e-9};
};

/// What CUDA says that the process has taken of a device since StarPU was started, at most at the
/// times when it was looked at, and what StarPU itself had taken by then. What another process
/// takes or gives back meanwhile counts as well.
class TakenMemory {
 public:
  explicit TakenMemory(const rt::Device& device);
  void look();
  [[nodiscard]] Index bytes() const { return before_ - least_free_; }

 private:
  int cuda_device_;
  Index before_;  ///< free, and StarPU's
  Index least_free_;
};

/// Trains on random tokens, two steps in flight as train_gpt does, and reads the steps after the
/// warm-up.
class StepBench {
 public:
  struct MemoryRow {
    std::string name;
    Index estimated = 0;
    Index allocated = 0;
  };
  struct DeviceMemory {
    std::string name;
    std::vector<MemoryRow> rows;
  };

  StepBench(rt::Session& session, const StepOptions& options, const StepPlan& plan);

  Readings run();

  [[nodiscard]] double last_loss() const { return last_loss_; }

  /// By device: the categories of fit::device_memory(), then "beside StarPU", what CUDA says less
  /// what StarPU knows of, and "all but states", what CUDA says less states, beside the whole
  /// estimate.
  [[nodiscard]] std::vector<DeviceMemory> device_memory() const;

  /// Of a step.
  [[nodiscard]] double tokens() const;
  /// Of a step, without what recomputation adds: backward is twice forward.
  [[nodiscard]] double gflop() const;
  [[nodiscard]] double parameters() const;
  /// Tokens of a sequence.
  [[nodiscard]] Index context() const { return plan_.run.model.context; }

 private:
  static constexpr Index kRunAhead = 2;

  void submit(Index step);
  void finish(Index step);
  [[nodiscard]] planner::MemoryUse estimate_of(const rt::Device& device) const;

  const StepOptions& options_;
  const StepPlan& plan_;
  shape::RunShape shape_;
  rt::Session& session_;
  std::vector<rt::Device> devices_;
  std::vector<TakenMemory> taken_;  ///< of devices_
  rt::Submitter submitter_;
  tensor::ParameterSet parameters_;
  optim::ElementwiseOptimizer optimizer_;
  train::StepResults results_;
  std::unique_ptr<models::Decoder> model_;
  train::StepClock clock_;
  Readings readings_;
  double last_loss_ = 0;
};

}  // namespace dos::bench
