// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rt/device.hpp"

namespace dos::launch {

/// Where MPI reads and writes what a rank's forward and backward passes hold.
struct MessageMemory {
  std::optional<rt::Device> gpu;  ///< nothing: host memory
  std::string words;              ///< for the log, with the reason
};

/// `setting` is dist.gpu_messages. A rank that divides its batch among several GPUs has its
/// gradients' last additions on any of them, and copies of the parameters on all: no single one is
/// theirs, and messages go through host memory.
MessageMemory choose_message_memory(const std::string& setting, bool mpi_knows_gpus,
                                    const std::vector<rt::Device>& devices);

}  // namespace dos::launch
