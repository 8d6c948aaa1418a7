// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "models/demand.hpp"
#include "planner/memory.hpp"
#include "planner/passes.hpp"
#include "planner/planner.hpp"
#include "rt/session.hpp"
#include "train/run.hpp"

namespace dos::fit {

/// Rates of forward and backward that are known; what is missing is assumed.
struct Measured {
  /// Of a device, or of the CPUs where they run the model.
  std::optional<units::FlopsPerSecond> compute{};
  std::optional<planner::CopyRates> link{};
  std::optional<planner::DiskRates> disk{};
  std::optional<units::BytesPerSecond> dram{};
  std::string disks{};  ///< of activations, whose rates `disk` are: names in the machine file
  /// What updates are forecast by: the whole machine, where `calibrate` measured it, the ranks
  /// that share it, and the policy that runs. The rest of it is not read.
  std::optional<planner::Request> whole{};
  std::string machine{};  ///< the file that has them; "": none, or StarPU's measurement of its bus

  /// Who says so, in a few words.
  [[nodiscard]] std::string source() const;
};

/// What else goes to the disks of activations: of the busiest of them, what it has of the states on
/// disks, or of checkpoints, over what it has of the activations; 0: nothing.
struct SharedDisks {
  double states = 0;
  double checkpoints = 0;
};

/// What a run may take, and how many workers share its work.
struct Room {
  struct Device {
    std::string name;
    Index bytes = 0;         ///< that the runtime may use
    bool runs_model = true;  ///< else it only updates
  };
  Index host_bytes = 0;
  std::string host_limit{};  ///< what makes it less than the machine has, if anything does
  Index host_there = 0;      ///< with train.host_memory: what the machine has
  Index host_taken = 0;      ///< likewise: what of the limit the program has already
  Index workers = 1;         ///< of every kind: each has work space in host memory
  Index cpu_workers = 1;     ///< that lanes are cut for where no device runs the model
  std::string policy{};  ///< the scheduler; one of sched/policy_registry.hpp may have states stay
  std::vector<Device> devices;
  units::Bytes disk{std::numeric_limits<double>::infinity()};  ///< for activations
  SharedDisks shared{};
  /// Whether weights that devices have no place for come for the layer at work.
  bool weights_may_pass = true;
  Measured measured{};

  [[nodiscard]] Index model_devices() const;
  /// How many workers run lanes side by side: the devices that run the model, else the CPUs.
  [[nodiscard]] shape::LaneWorkers lane_workers() const;
  [[nodiscard]] models::WorkerCount worker_count() const;
};

/// The room of the running session, with the links that StarPU has measured. Devices whose size
/// StarPU does not know are left out.
Room room_of(const rt::Session& session);

/// What a run needs, by category, and what there is.
struct RunMemory {
  planner::MemoryUse host;
  std::vector<planner::MemoryUse> devices;  ///< those of the room that run the model

  [[nodiscard]] bool fits() const;
};

/// With states of the optimizer that host memory has no room for on devices, where there are no
/// disks.
RunMemory estimate_run(const train::Run& run, const Room& room);

/// The run that fits: `run` itself, or with train.fit=auto the first that does of: smaller
/// micro-batches that divide train.batch, with as many more of them a step, while a lane has 2048
/// tokens; the same with recomputation, down to one sequence. A lane has at least one sequence.
/// Where nothing fits, the same once more with weights that pass.
/// Throws Error with the largest category, the options that would help and the table of what does
/// not fit.
train::Run fit_to(const train::Run& run, const Room& room);

/// Throws Error with device, sizes and remedies when a device is too small for one update and
/// `policy`, one of sched/policy_registry.hpp, may send it there. Other schedulers are not judged.
void expect_room_for_updates(const train::Run& run, const Room& room, const std::string& policy);

/// Whether a device of the run needs the memory of dead activations for updates
/// (planner::needs_dead_activations).
bool needs_dead_activations(const train::Run& run, const Room& room);

/// largest_update_bytes() in this room.
Index update_bytes(const train::Run& run, const Room& room);

/// What `--dry-run` prints of memory: a table of the host and one of each device, with what is left
/// for states of the optimizer; of several ranks the tables of this one and the host's total of
/// each.
std::string memory_report(const train::Run& run, const Room& room);

}  // namespace dos::fit
