// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include <span>
#include <vector>

#include "sched_starpu/settings.hpp"
#include "sched_starpu/update_board.hpp"

namespace dos::sched_starpu {

/// Where StarPU knows no limit.
inline constexpr units::Bytes kUnlimited{1e15};

double bytes_of(starpu_data_handle_t handle);

/// Whether it is one, by the symbol of its performance model. Of no parameters there is none.
bool is_update(starpu_task* task, const Settings& settings);

/// What an update is, by its buffers: buffer 0 holds the FP32 parameters; what the task reads and
/// writes are states, what it only writes are working parameters, the largest that it only reads is
/// the gradient. The settings say where the model and its gradients are.
UpdateTask describe_update(starpu_task* task, const Settings& settings);

/// The only GPU that has the update's gradient, so that its backward made it and its forward will
/// use the parameters; -1 where none has, or several. `memories`: the memory node of each GPU.
Index user_of(const UpdateTask& update, std::span<const unsigned> memories);

/// Buffers of updates.
struct UpdateBuffers {
  /// A GPU holds them for the update alone: states, but parameters that forward reads there, and
  /// where the model is on the host all of them.
  std::vector<starpu_data_handle_t> of_update;
  std::vector<starpu_data_handle_t> of_model;  ///< the others
};

void add_buffers(starpu_task* task, const Settings& settings, UpdateBuffers& buffers);

/// What states may use of a GPU, read from StarPU between backward and the first update: what is
/// free, what buffers of updates have of it already, and outdated copies of the model's, which
/// another GPU uses now; less sched::kMemoryReserve. While the update runs also what
/// settings.released says (activations).
sched::StateMemory memory_for_states(unsigned node, const UpdateBuffers& buffers,
                                     const Settings& settings);

/// Starts to copy to host memory what the update only reads, by its priority among copies. StarPU
/// does not remember it as the task's: it may still run anywhere.
void start_fetch(starpu_task* task);

/// The CPU has run an update: starts to copy the working parameters to a memory node that had them
/// and misses them now. The next forward pass reads them there, but asks for those of a layer only
/// when the layer before is done.
void start_return(starpu_task* task, const Settings& settings, unsigned node);

/// Starts to copy a buffer to host memory unless it is there or on its way. Returns its bytes, 0
/// where nothing had to be started.
units::Bytes start_flush(starpu_data_handle_t buffer);

}  // namespace dos::sched_starpu
