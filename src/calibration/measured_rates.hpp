// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "calibration/disks.hpp"
#include "calibration/meter.hpp"
#include "calibration/results.hpp"
#include "calibration/update_set.hpp"
#include "rt/device.hpp"

/// The measurements. docs/calibration.md says what each number is and why it is measured like this.
namespace dos::calibration {

/// How much data the measurements use.
struct Sizes {
  Index cpu_bytes = 0;      ///< of buffers that CPU updates go through
  Index cpu_params = 0;     ///< of a subgroup, at most
  Index device_params = 0;  ///< of a subgroup, at most
  Index link_bytes = 0;     ///< of a copy
};

/// cpu.*, dram.bandwidth, node.task_latency.
std::vector<Result> measure_cpu(const Meter& meter, const codelets::UpdateKind& kind,
                                const UpdateSet& set);

/// node.training_rate and node.training_rate_fp32, where forward and backward run: on CUDA devices,
/// one's share of it, or on the CPUs if there are none.
std::vector<Result> measure_training(const Meter& meter, const std::vector<rt::Device>& devices);

/// gpu.* and link.* of all devices together, a device's share of it; gpu.update_rate of each, if
/// there are several. `load` is what the CPU updates where a rate is that beside a busy CPU.
/// Pre: at least one device.
std::vector<Result> measure_devices(const Meter& meter, const codelets::UpdateKind& kind,
                                    const std::vector<rt::Device>& devices, const Sizes& sizes,
                                    const UpdateSet& load);

/// tier.NAME.*: capacity, rates of reads, of writes and of both at once, each also while the CPU
/// updates `load`, latency; with two files of `file_bytes`. Throws Error for what the disk cannot
/// do.
std::vector<Result> measure_disk(const Meter& meter, const Disk& disk, Index file_bytes,
                                 const UpdateSet& load);

/// The subgroups that CPU rates are measured with: several a worker.
UpdateSet make_cpu_set(rt::Submitter& submitter, const codelets::UpdateKind& kind,
                       const Sizes& sizes);

/// "adamw f32.f32": rule, gradient, working parameters.
std::string name_of(const codelets::UpdateKind& kind);

}  // namespace dos::calibration
