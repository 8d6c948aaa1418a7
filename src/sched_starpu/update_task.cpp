// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/update_task.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "sched_starpu/runtime_version.hpp"

namespace dos::sched_starpu {
namespace {

double bytes_of(starpu_data_handle_t handle) {
  return static_cast<double>(starpu_data_get_size(handle));
}

/// What a memory node has of a buffer.
struct Copy {
  int is_allocated = 0;
  int is_valid = 0;
  int is_requested = 0;

  Copy(starpu_data_handle_t buffer, unsigned node) {
    starpu_data_query_status(buffer, static_cast<int>(node), &is_allocated, &is_valid,
                             &is_requested);
  }
};

/// What a buffer is for an update. An update apart reads parameters and states, first of its
/// buffers, and writes others: as many of their size as it reads of them, none in place.
enum class Role { kState, kOldState, kWorking, kRead, kSums };

/// Calls f(handle, role) for each buffer but work space.
template <class F>
void for_each_buffer(starpu_task* task, F&& f) {
  const unsigned count = STARPU_TASK_GET_NBUFFERS(task);
  const double size = bytes_of(STARPU_TASK_GET_HANDLE(task, 0));
  const auto mode_of = [&](unsigned i) { return STARPU_TASK_GET_MODE(task, i) & STARPU_RW; };
  const bool is_apart = mode_of(0) == STARPU_R;
  Index old_states = 0;
  for (unsigned i = 0; is_apart && i < count; ++i)
    if (mode_of(i) == STARPU_W && bytes_of(STARPU_TASK_GET_HANDLE(task, i)) == size) ++old_states;
  for (unsigned i = 0; i < count; ++i) {
    starpu_data_handle_t handle = STARPU_TASK_GET_HANDLE(task, i);
    const bool is_full = bytes_of(handle) == size;
    switch (mode_of(i)) {
      case STARPU_R:
        f(handle, old_states-- > 0 ? Role::kOldState : Role::kRead);
        break;
      case STARPU_W:
        f(handle, is_apart && is_full ? Role::kState : Role::kWorking);
        break;
      case STARPU_RW:
        f(handle, is_full ? Role::kState : Role::kSums);
        break;
      default:
        break;
    }
  }
}

/// Whether the update has working parameters of its own.
bool writes_parameters(starpu_task* task) {
  bool writes = false;
  for_each_buffer(task, [&](starpu_data_handle_t, Role role) { writes |= role == Role::kWorking; });
  return writes;
}

bool has_prefix(starpu_task* task, const std::string& prefix) {
  const starpu_perfmodel* model = task->cl == nullptr ? nullptr : task->cl->model;
  return model != nullptr && model->symbol != nullptr &&
         std::string_view(model->symbol).starts_with(prefix);
}

/// A GPU's part of a buffer that none of the memories has: other buffers have taken its place, and
/// forward or backward will want it back.
double lost_bytes(starpu_data_handle_t buffer, std::span<const unsigned> memories) {
  const bool is_lost = std::ranges::none_of(
      memories, [&](unsigned memory) { return Copy(buffer, memory).is_allocated != 0; });
  return is_lost ? bytes_of(buffer) / static_cast<double>(memories.size()) : 0;
}

/// What a handle is one of the banks of.
const void* identity_of(starpu_data_handle_t handle) {
  const void* identity = starpu_data_get_user_data(handle);
  return identity == nullptr ? handle : identity;
}

/// Gradients are where the model is. An update without working parameters of its own is of a model
/// that reads the FP32 ones, where it is not said.
bool is_on_host(starpu_task* task, const SchedulerSettings& settings) {
  return settings.model_on_host.value_or(!writes_parameters(task));
}

/// The FP32 parameters where a model on a device reads them itself, null elsewhere.
starpu_data_handle_t masters_of_device(starpu_task* task, const SchedulerSettings& settings) {
  if (is_on_host(task, settings) || writes_parameters(task)) return nullptr;
  return STARPU_TASK_GET_HANDLE(task, 0);
}

}  // namespace

bool is_update(starpu_task* task, const SchedulerSettings& settings) {
  return (has_prefix(task, settings.update_prefix) || has_prefix(task, settings.redo_prefix)) &&
         STARPU_TASK_GET_NBUFFERS(task) > 0 &&
         bytes_of(STARPU_TASK_GET_HANDLE(task, 0)) >= sizeof(float);
}

UpdateTask describe_update(starpu_task* task, const SchedulerSettings& settings) {
  double states = 0;
  double allocated = 0;
  double written = 0;
  double read = 0;
  double gradient_bytes = 0;
  Index state_buffers = 0;
  Index banks = 1;
  starpu_data_handle_t gradient = nullptr;
  starpu_data_handle_t parameters = STARPU_TASK_GET_HANDLE(task, 0);
  for_each_buffer(task, [&](starpu_data_handle_t handle, Role role) {
    const double bytes = bytes_of(handle);
    if (role == Role::kState) {
      states += bytes;
      // Of all alike, but where a model on the device reads the parameters themselves.
      allocated = std::max(allocated, static_cast<double>(starpu_data_get_alloc_size(handle)));
      ++state_buffers;
    }
    if (role == Role::kOldState) banks = 2;
    if (role == Role::kWorking) written += bytes;
    if (role != Role::kRead) return;
    read += bytes;
    if (bytes <= gradient_bytes) return;
    gradient = handle;
    gradient_bytes = bytes;
  });
  const double params = bytes_of(parameters) / sizeof(float);
  const bool on_host = is_on_host(task, settings);
  const bool comes_from_host = on_host || settings.gradients_on_host;
  const double working = written == 0 ? sizeof(float) : written / params;
  return {.subgroup = identity_of(parameters),
          .gradient = gradient,
          .params = static_cast<Index>(params),
          .room = static_cast<Index>(allocated / sizeof(float)),
          .priority = task->priority,
          .cost = {.state = units::BytesPerParam(states / params),
                   .weight = units::BytesPerParam(on_host ? 0 : working),
                   .gradient = units::BytesPerParam(comes_from_host ? 0 : read / params),
                   .host_gradient = units::BytesPerParam(comes_from_host ? read / params : 0),
                   .host_parameter = units::BytesPerParam(on_host ? working : 0),
                   .host_weight = units::BytesPerParam(on_host ? written / params : 0),
                   .cpu_traffic = units::BytesPerParam((2 * states + written + read) / params),
                   .state_buffers = state_buffers,
                   .banks = banks},
          .is_redone = has_prefix(task, settings.redo_prefix)};
}

Index user_of(const UpdateTask& update, std::span<const unsigned> memories) {
  if (update.gradient == nullptr) return -1;
  auto* gradient = static_cast<starpu_data_handle_t>(const_cast<void*>(update.gradient));
  Index user = -1;
  for (std::size_t gpu = 0; gpu < memories.size(); ++gpu) {
    if (Copy(gradient, memories[gpu]).is_valid == 0) continue;
    if (user >= 0) return -1;
    user = static_cast<Index>(gpu);
  }
  return user;
}

void add_buffers(starpu_task* task, const SchedulerSettings& settings, UpdateBuffers& buffers) {
  const bool on_host = is_on_host(task, settings);
  starpu_data_handle_t masters = masters_of_device(task, settings);
  for_each_buffer(task, [&](starpu_data_handle_t handle, Role role) {
    const bool is_state = role == Role::kState || role == Role::kOldState || role == Role::kSums;
    if (on_host || (is_state && handle != masters))
      buffers.of_update.push_back(handle);
    else if (role == Role::kRead && !settings.gradients_on_host)
      buffers.gradients.push_back(handle);
    else
      buffers.of_model.push_back(handle);
  });
}

UpdateMemory memory_for(starpu_task* task, const SchedulerSettings& settings, unsigned node) {
  UpdateBuffers buffers;
  add_buffers(task, settings, buffers);
  UpdateMemory memory;
  const auto add = [&](starpu_data_handle_t buffer, units::Bytes& missing) {
    // As StarPU counts it.
    const units::Bytes bytes(static_cast<double>(starpu_data_get_alloc_size(buffer)));
    (Copy(buffer, node).is_allocated != 0 ? memory.allocated : missing) += bytes;
  };
  for (starpu_data_handle_t buffer : buffers.of_model) add(buffer, memory.missing_of_model);
  for (starpu_data_handle_t buffer : buffers.gradients) add(buffer, memory.missing_of_model);
  memory.allocated = units::Bytes(0);
  for (starpu_data_handle_t buffer : buffers.of_update) add(buffer, memory.missing);
  return memory;
}

void start_return(starpu_task* task, const SchedulerSettings& settings, unsigned node) {
  if (is_on_host(task, settings)) return;
  starpu_data_handle_t masters = masters_of_device(task, settings);
  for_each_buffer(task, [&](starpu_data_handle_t handle, Role role) {
    if (role != Role::kWorking && handle != masters) return;
    const Copy copy(handle, node);
    if (copy.is_allocated != 0 && copy.is_valid == 0 && copy.is_requested == 0)
      starpu_data_prefetch_on_node_prio(handle, node, /*async=*/1, task->priority);
  });
}

sched::StateMemory memory_for_states(Index gpu, std::span<const unsigned> memories,
                                     const UpdateBuffers& buffers,
                                     const SchedulerSettings& settings) {
  const unsigned node = memories[static_cast<std::size_t>(gpu)];
  const auto total = static_cast<double>(starpu_memory_get_total(node));
  const units::Bytes unlimited = settings.tuning.unlimited;
  if (total < 0) return {.update = unlimited, .resident = unlimited};
  auto free = static_cast<double>(starpu_memory_get_available(node));
  for (starpu_data_handle_t buffer : buffers.of_update)
    if (Copy(buffer, node).is_allocated != 0) free += bytes_of(buffer);
  double weights = 0;  // that are here, or will come back
  for (starpu_data_handle_t buffer : buffers.of_model) {
    const Copy copy(buffer, node);
    const double bytes = copy.is_valid != 0 ? bytes_of(buffer) : 0;
    if (copy.is_allocated != 0) free += bytes_of(buffer);
    weights += copy.is_allocated != 0 ? bytes : lost_bytes(buffer, memories);
  }
  double gradients = 0;
  for (starpu_data_handle_t buffer : buffers.gradients) {
    const bool is_here = Copy(buffer, node).is_allocated != 0;
    if (is_here) free += bytes_of(buffer);
    gradients += is_here ? bytes_of(buffer) : lost_bytes(buffer, memories);
  }
  const auto released = static_cast<double>(
      settings.released == nullptr ? 0 : settings.released(static_cast<int>(node)));
  const auto usable = [&](double bytes) {
    return units::Bytes(std::max(0.0, std::min(bytes, total) - sched::kMemoryReserve * total));
  };
  const double beside = free - weights + released;
  const units::Bytes update = usable(beside);
  return {.update = update,
          .resident = usable(free - weights),
          .reserve = units::Bytes(std::max(0.0, std::min(beside, total))) - update,
          .gradients = units::Bytes(gradients),
          .passing = {.bytes = units::Bytes(weights),
                      .update = usable(free + released),
                      .resident = usable(free)}};
}

void start_inputs(starpu_task* task, unsigned node) {
  bool is_on_its_way = false;
  bool is_missing = false;
  for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(task); ++i) {
    if ((STARPU_TASK_GET_MODE(task, i) & STARPU_R) == 0) continue;
    const Copy copy(STARPU_TASK_GET_HANDLE(task, i), node);
    if (copy.is_valid == 0) (copy.is_requested != 0 ? is_on_its_way : is_missing) = true;
  }
  if (is_missing || !is_on_its_way) starpu_prefetch_task_input_on_node(task, node);
}

Inputs inputs_of(starpu_task* task, unsigned node) {
  Inputs result = Inputs::kHere;
  for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(task); ++i) {
    if ((STARPU_TASK_GET_MODE(task, i) & STARPU_R) == 0) continue;
    const Copy copy(STARPU_TASK_GET_HANDLE(task, i), node);
    if (copy.is_valid != 0) continue;
    if (copy.is_requested == 0) return Inputs::kNotAskedFor;
    result = Inputs::kOnTheirWay;
  }
  return result;
}

void start_fetch(starpu_task* task, unsigned node) {
  for_each_buffer(task, [&](starpu_data_handle_t handle, Role role) {
    if (role == Role::kRead || role == Role::kOldState)
      starpu_data_prefetch_on_node_prio(handle, node, /*async=*/1, task->priority);
  });
}

units::Bytes start_flush(starpu_data_handle_t buffer, unsigned node) {
  const Copy copy(buffer, node);
  if (copy.is_valid != 0 || copy.is_requested != 0) return units::Bytes{0};
  start_copy(buffer, node);
  return units::Bytes(bytes_of(buffer));
}

std::vector<starpu_data_handle_t> start_home(starpu_task* task, const SchedulerSettings& settings,
                                             bool is_resident) {
  std::vector<starpu_data_handle_t> started;
  const bool model_is_on_host = settings.model_on_host.value_or(false);
  for_each_buffer(task, [&](starpu_data_handle_t handle, Role role) {
    const bool is_state = role == Role::kState || role == Role::kSums;
    if (is_state ? is_resident : role != Role::kWorking || !model_is_on_host) return;
    start_copy(handle, home_of(handle));
    started.push_back(handle);
  });
  return started;
}

}  // namespace dos::sched_starpu
