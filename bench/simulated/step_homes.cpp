// SPDX-License-Identifier: Apache-2.0
#include "simulated/step_homes.hpp"

#include "base/error.hpp"

namespace dos::bench {
namespace {

constexpr Index kStateBytes = 4;

Index params_of(starpu_data_handle_t state) {
  return starpu_vector_get_nx(state);
}

/// As rt::HandleSpec::kept_on.
void keep_on(unsigned node, starpu_data_handle_t state) {
  const std::uintptr_t memory =
      starpu_malloc_on_node(node, static_cast<std::size_t>(params_of(state) * kStateBytes));
  expect(memory != 0, "no memory on the GPU for states that live there");
  starpu_vector_ptr_register(state, node, memory, memory, 0);
}

}  // namespace

StepHomes::StepHomes(const StepTask& task,
                     const std::vector<std::vector<starpu_data_handle_t>>& states)
    : on_gpu_(task.on_gpu.begin(), task.on_gpu.end()), are_due_by_turns_(task.is_unclipped) {
  const auto worker = static_cast<unsigned>(starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0));
  gpu_worker_.resize(worker / 32 + 1);
  gpu_worker_.back() = std::uint32_t{1} << (worker % 32);
  for (const std::size_t subgroup : task.on_gpu)
    for (starpu_data_handle_t state : states[subgroup])
      keep_on(starpu_worker_get_memory_node(worker), state);
  if (task.on_disk.empty()) return;
  disks_.emplace(task.disks, task.slots);
  for (const std::size_t subgroup : task.on_disk) {
    place_on_disk_.emplace(subgroup, place_on_disk_.size());
    Index bytes = 0;
    for (starpu_data_handle_t state : states[subgroup]) bytes += params_of(state) * kStateBytes;
    disks_->add(states[subgroup], bytes);
  }
  disks_->start();
}

void StepHomes::before_update(std::size_t subgroup, starpu_data_handle_t last,
                              starpu_task& update) {
  if (on_gpu_.contains(subgroup)) {
    update.workerids = gpu_worker_.data();
    update.workerids_len = static_cast<unsigned>(gpu_worker_.size());
  }
  const auto place = place_on_disk_.find(subgroup);
  if (place != place_on_disk_.end())
    disks_->open(place->second, are_due_by_turns_ ? last : nullptr);
}

void StepHomes::after_update(std::size_t subgroup) {
  const auto place = place_on_disk_.find(subgroup);
  if (place != place_on_disk_.end()) disks_->store(place->second);
}

void StepHomes::end_step() {
  if (disks_) disks_->end_round();
}

void StepHomes::settle() {
  if (disks_) disks_->settle();
}

void StepHomes::count(double sign, StepResult& result) const {
  if (!disks_) return;
  result.disk_bytes += sign * disks_->transferred();
  result.disk_busy += sign * disks_->busy();
}

}  // namespace dos::bench
