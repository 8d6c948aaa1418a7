// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/types.hpp"
#include "rt/condition.hpp"
#include "rt/profile.hpp"

struct starpu_task;
struct starpu_opencl_program;

namespace dos::rt {

/// Precedes the arguments of every task in its StarPU argument block, which StarPU frees with the
/// task.
struct alignas(std::max_align_t) TaskHeader {
  starpu_task* task;
  Profile* profile;
  std::atomic<Index>* pending_bytes;      ///< what pending tasks take in all
  Index takes;                            ///< this one of it
  starpu_opencl_program* opencl_program;  ///< null unless the session has OpenCL workers
  TaskRecord record;                      ///< completed when the task ends
  std::uint32_t footprint;                ///< hash of the sizes that determine the cost
  Index number;                           ///< order of submission
  std::uint32_t buffers;                  ///< number of buffers
  std::size_t payload_offset;             ///< from the start of the block
  std::size_t bytes;                      ///< of the whole block
  Condition condition;                    ///< under which it runs
  bool is_left_out;                       ///< as that did not hold
};

}  // namespace dos::rt
