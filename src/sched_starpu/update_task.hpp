// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include <span>
#include <vector>

#include "sched_starpu/ready_tasks.hpp"
#include "sched_starpu/scheduler_settings.hpp"
#include "sched_starpu/subgroup_registry.hpp"

namespace dos::sched_starpu {

/// Whether the task is an update, by the symbol of its performance model. One of no parameters is
/// none.
bool is_update(starpu_task* task, const SchedulerSettings& settings);

/// What an update is, by its buffers: the first holds the FP32 parameters; what is read and written
/// are states, what is only written are working parameters, the largest that is only read is the
/// gradient. The settings say where the model and its gradients are. Pre: is_update().
UpdateTask describe_update(starpu_task* task, const SchedulerSettings& settings);

/// The only GPU that has the update's gradient: its forward will use the parameters. -1 where none
/// has, or several. `memories`: by GPU, its memory node.
Index user_of(const UpdateTask& update, std::span<const unsigned> memories);

/// Buffers of updates, as a GPU has them.
struct UpdateBuffers {
  std::vector<starpu_data_handle_t> of_update;  ///< for updates alone
  std::vector<starpu_data_handle_t> of_model;   ///< for forward and backward too
  std::vector<starpu_data_handle_t> gradients;  ///< that backward leaves on GPUs
};

void add_buffers(starpu_task* task, const SchedulerSettings& settings, UpdateBuffers& buffers);

/// Memory of a node for an update.
struct UpdateMemory {
  units::Bytes allocated{0};  ///< for the update alone, whatever it is worth
  units::Bytes missing{0};    ///< for the update alone: to be allocated before it can run there
  units::Bytes missing_of_model{0};  ///< the same of what forward and backward use, too
};
UpdateMemory memory_for(starpu_task* task, const SchedulerSettings& settings, unsigned node);

/// What states and gradients may use of a GPU, read from StarPU between backward and the first
/// update: what is free, what they have of it, and outdated copies of the model's buffers, which
/// another GPU uses now; less what the model has lost and sched::kMemoryReserve. While the update
/// runs also what settings.released says. Weights that the model has, or has lost, may pass.
/// `memories`: by GPU, its memory node.
sched::StateMemory memory_for_states(Index gpu, std::span<const unsigned> memories,
                                     const UpdateBuffers& buffers,
                                     const SchedulerSettings& settings);

// Copies that nobody waits for. `node`: a memory node of StarPU.

/// What a task reads, to `node`, where StarPU then keeps it for the task; nothing where no more
/// than what is on its way is missing. StarPU makes a request for each task that asks, and aborts
/// when more than STARPU_MAXNODES wait for one copy that passes through host memory
/// (datawizard/coherency.c).
void start_inputs(starpu_task* task, unsigned node);

/// Where what the task reads is: StarPU forgets a prefetch for which there was no memory.
Inputs inputs_of(starpu_task* task, unsigned node);

/// What the update only reads, to `node`, by its priority among copies. StarPU does not remember it
/// as the task's: it may still run anywhere. Requests of tasks, for the same buffer, join this one.
void start_fetch(starpu_task* task, unsigned node);

/// A buffer, to `node` unless it is there or on its way. Returns its bytes, 0 where nothing had to
/// be started.
units::Bytes start_flush(starpu_data_handle_t buffer, unsigned node);

/// What a GPU need not keep of an update that it has run, to where it lives (home_of()): the states
/// unless they are resident, and working parameters where the settings have the model on the host.
/// Returns these buffers.
std::vector<starpu_data_handle_t> start_home(starpu_task* task, const SchedulerSettings& settings,
                                             bool is_resident);

/// The working parameters that the CPU has written, to `node` if it had them and misses them now.
/// The next forward pass reads them there, but asks for those of a layer only when the layer before
/// is done.
void start_return(starpu_task* task, const SchedulerSettings& settings, unsigned node);

}  // namespace dos::sched_starpu
