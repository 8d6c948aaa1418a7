// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/train_config.hpp"
#include "platform/mpi.hpp"

namespace dos::launch {

/// What the command line of train_gpt says.
struct LaunchOptions {
  std::filesystem::path config_file;     ///< "": none
  std::vector<std::string> assignments;  ///< --set, in order
  std::filesystem::path out;
  std::optional<std::string> resume;  ///< last, best, auto, a step or a path
  std::filesystem::path init_from;    ///< folder whose weights a new run starts with; "": none
  std::filesystem::path lora_from;    ///< folder of adapters that it starts with; "": none
  std::string scheduler;              ///< STARPU_SCHED; "": the default
  bool dry_run = false;
  bool explain = false;  ///< print at the end what the scheduler planned and did
  bool quiet = false;
  bool verify = false;          ///< read all of the data before the start
  bool new_data = false;        ///< go on with another data set than the checkpoint's
  std::filesystem::path trace;  ///< folder of the trace; "": none
  std::string trace_steps;      ///< "A:B"; "": all
  /// Those that may be taken from train.checkpoint_local, of several ranks; nullopt: one rank,
  /// which sees for itself.
  std::optional<std::set<Index>> local_steps{};
  /// Why a run must not begin anew, as that would remove what is there; "": it may.
  std::string local_leftovers{};
  std::filesystem::path machines;  ///< folder of what calibrate measured, for dist.weights = auto
};

/// The configuration of a run: that of the checkpoint when one is resumed (except
/// train.stop_after), else the defaults; then the file; then the assignments; model.* of a run that
/// starts with a folder's weights say that folder's model. Not yet validated.
config::TrainConfig merge_configuration(const LaunchOptions& options);

/// Checks everything, then trains as the options say (or, with dry_run, prints the memory
/// estimate), together with the other ranks of `mpi`; only rank 0 prints and writes. Throws Error;
/// nothing is allocated before the configuration, the data and the memory are checked, and nothing
/// is written before a checkpoint to resume is loaded. What one rank finds wrong ends all of them.
/// Rank 0's output folder is everybody's.
void launch(const LaunchOptions& options, platform::MpiEnvironment& mpi);

}  // namespace dos::launch
