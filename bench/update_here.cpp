// SPDX-License-Identifier: Apache-2.0
#include "update_here.hpp"

#include <algorithm>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "calibration/update_set.hpp"
#include "platform/memory_limits.hpp"
#include "rt/access.hpp"
#include "rt/cuda.hpp"
#include "rt/device.hpp"
#include "sched_starpu/policies.hpp"
#include "update_result.hpp"

namespace dos::bench {
namespace {

using calibration::UpdateSet;
using rt::Device;

constexpr codelets::UpdateKind kKind{.rule = 0, .gradient = DType::kBF16, .working = DType::kBF16};

/// Counts buffers that have arrived.
class Arrival final : public rt::AccessListener {
 public:
  explicit Arrival(std::latch& arrived) : arrived_(arrived) {}
  void granted(void* /*data*/) noexcept override { arrived_.count_down(); }

 private:
  std::latch& arrived_;
};

std::vector<Index> sizes_of(const UpdatePhase& phase) {
  std::vector<Index> sizes;
  for (const sched::Subgroup& subgroup : phase.problem.subgroups) sizes.push_back(subgroup.params);
  return sizes;
}

/// The training program as far as an update sees it.
class Program {
 public:
  Program(rt::Submitter& submitter, const UpdatePhase& phase, std::vector<Device> devices)
      : session_(submitter.session()),
        devices_(std::move(devices)),
        users_(deal(phase.problem.subgroups, phase.problem.gpus())),
        updates_(submitter, kKind, sizes_of(phase)) {
    for (Index i = 0; i < updates_.subgroups(); ++i)
      for (const Device& device : devices_)
        rt::fetch(updates_.working(i), device.node, rt::Mode::kRead);
  }

  /// Every GPU has the gradients of its part of the subgroups, and nobody else has them. Takes as
  /// long as short passes over the model, beside which schedulers plan.
  void backward() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    for (Index i = 0; i < updates_.subgroups(); ++i)
      rt::fetch(updates_.gradient(i), home_of(i).node, rt::Mode::kReadWrite);
  }

  [[nodiscard]] NodeStep update() const {
    const Index subgroups = updates_.subgroups();
    std::latch arrived(subgroups * std::ssize(devices_));
    Arrival arrival(arrived);
    take_transferred();
    const auto start = std::chrono::steady_clock::now();
    for (Index i = 0; i < subgroups; ++i) {
      // The next forward needs the first subgroups first.
      updates_.submit_update(i, {.priority = static_cast<int>(subgroups - i)});
      for (const Device& device : devices_)
        rt::request_access(updates_.working(i), device.node, rt::Mode::kRead, arrival);
    }
    arrived.wait();
    const auto end = std::chrono::steady_clock::now();
    for (Index i = 0; i < subgroups; ++i)
      for (const Device& device : devices_) rt::end_access(updates_.working(i), device.node);
    session_.wait_all();
    NodeStep step = take_transferred();
    step.seconds = std::chrono::duration<double>(end - start).count();
    return step;
  }

 private:
  [[nodiscard]] const Device& home_of(Index subgroup) const {
    return devices_[static_cast<std::size_t>(users_[static_cast<std::size_t>(subgroup)])];
  }

  const rt::Session& session_;
  std::vector<Device> devices_;
  std::vector<Index> users_;  ///< by subgroup
  UpdateSet updates_;
};

/// Of each GPU: what the phase counts, and working parameters of the others' part, which all have.
Index memory_of(const UpdatePhase& phase) {
  const double gpus = static_cast<double>(phase.problem.gpus());
  const units::Bytes others =
      phase.problem.total() * units::BytesPerParam(size_of(kKind.working)) * (1 - 1 / gpus);
  return static_cast<Index>(std::min((phase.gpu_memory + others).value(), 1e15));
}

rt::SessionConfig session_of(const UpdatePhase& phase) {
  const bool has_nvidia = !rt::cuda_bus_ids().empty();
  const Index gpus = phase.problem.gpus();
  return {.scheduler = phase.policy,
          .cpu_workers = phase.problem.rates.cpu_workers,
          .opencl_workers = has_nvidia ? 0 : gpus,
          .cuda_workers = has_nvidia ? gpus : 0,
          .device_memory = memory_of(phase),
          .schedulers = sched_starpu::policies()};
}

void expect_host_memory(const UpdatePhase& phase) {
  const auto needed = static_cast<Index>(phase.problem.total().value()) *
                      calibration::stored_bytes_per_parameter(kKind);
  const Index free = platform::memory_left().bytes;
  expect(needed < free, "--params: {} of host memory, {} are free: use fewer", format_bytes(needed),
         format_bytes(free));
}

}  // namespace

NodeResult run_here(const UpdatePhase& phase) {
  expect_host_memory(phase);
  sched_starpu::configure(
      {.options = phase.options, .measured_link = phase.problem.rates.gpus.front()});
  rt::Session session(session_of(phase));
  const std::vector<Device> devices = rt::devices();
  expect(std::ssize(devices) == phase.problem.gpus(),
         "--gpus {}: StarPU finds {} devices: use a StarPU with CUDA, fewer --gpus, or "
         "STARPU_OPENCL_ON_CPUS=1 where an OpenCL device is a CPU",
         phase.problem.gpus(), devices.size());
  expect(session.cpu_workers() == phase.problem.rates.cpu_workers,
         "--machine {}: its file says {} CPU workers beside the GPUs, here are {}: calibrate this "
         "machine, with as many devices",
         phase.machine, phase.problem.rates.cpu_workers, session.cpu_workers());
  rt::Submitter submitter(session);
  const Program program(submitter, phase, devices);
  return measure(phase.warm_ups, phase.steps, [&] {
    program.backward();
    return program.update();
  });
}

}  // namespace dos::bench
