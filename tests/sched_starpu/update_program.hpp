// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "sched_starpu/update_board.hpp"

namespace dos::sched_starpu {

inline constexpr Index kParams = 1'000'000;
inline constexpr Index kSubgroups = 40;
inline constexpr double kCpuRate = 1e8;   // parameters/s of one worker
inline constexpr double kGpuRate = 25e9;  // parameters/s

inline Surroundings surroundings(Index gpus, double memory = 1e9) {
  Surroundings result{.cpu_workers = 8, .gpus = {}, .transfer_latency = units::microseconds(10)};
  const Surroundings::Gpu gpu{.h2d = units::gigabytes_per_second(20),
                              .d2h = units::gigabytes_per_second(20),
                              .memory = {.update = units::Bytes(memory), .resident = {}}};
  result.gpus.assign(static_cast<std::size_t>(gpus), gpu);
  return result;
}

inline Index announce(UpdateBoard& board, const UpdateTask& task) {
  return board.place(task, NoLock()).index;
}

/// A program of equal subgroups, the first of which the next forward needs first.
class Program {
 public:
  Program(const std::string& policy, const Surroundings& around,
          const sched::PolicyOptions& options = {})
      : board(policy, options, around) {}

  /// All updates arrive, and run where they are planned, at `cpu_rate` and kGpuRate.
  void step(double cpu_rate = kCpuRate) {
    std::vector<Index> indices;
    for (Index i = 0; i < kSubgroups; ++i) indices.push_back(arrive(i));
    for (const Index index : indices) {
      const Device device = board.planned(index).device;
      const double rate = device.is_cpu() ? cpu_rate : kGpuRate;
      board.executed(index, device, units::Seconds(kParams / rate));
    }
  }
  UpdateTask task(Index i) const {
    return {.subgroup = &identities_[static_cast<std::size_t>(i)],
            .gradient = gradient(i),
            .params = kParams,
            .priority = static_cast<int>(kSubgroups - i),
            .cost = cost_};
  }
  void model_on_host() {
    cost_.weight = units::BytesPerParam(0);
    cost_.host_gradient = cost_.host_parameter = units::BytesPerParam(4);
  }
  /// In BF16, with FP32 sums of several ranks.
  void gradients_on_host() { cost_.host_gradient = units::BytesPerParam(4); }
  void model_on_host_in_bf16() {
    model_on_host();
    cost_.host_gradient = cost_.host_parameter = cost_.host_weight = units::BytesPerParam(2);
  }
  const void* gradient(Index i) const { return &gradients_[static_cast<std::size_t>(i)]; }
  Index arrive(Index i) { return announce(board, task(i)); }
  double gpu_share() {
    Index count = 0;
    for (Index i = 0; i < kSubgroups; ++i) count += board.planned(i).device.is_cpu() ? 0 : 1;
    return static_cast<double>(count) / kSubgroups;
  }

  UpdateBoard board;

 private:
  std::array<char, kSubgroups> identities_{};
  std::array<char, kSubgroups> gradients_{};
  sched::UpdateCost cost_;
};

}  // namespace dos::sched_starpu
