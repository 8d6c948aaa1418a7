// SPDX-License-Identifier: Apache-2.0
#include "fit/stated_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"

namespace dos::fit {
namespace {

/// In GB, rounded up: what a program has before it begins differs by less.
double gigabytes_for(double bytes) {
  constexpr double kTenMillion = 1e7;
  return std::ceil(bytes / kTenMillion) / 1e2;
}

}  // namespace

void limit_host(const config::TrainConfig& config, Index taken, Room& room) {
  if (config.train.host_memory == 0) return;
  room.host_there = room.host_bytes;
  room.host_taken = taken;
  const Index left = std::max<Index>(0, config.host_memory_bytes() - taken);
  if (left >= room.host_bytes) return;
  room.host_bytes = left;
  room.host_limit = fmt::format("train.host_memory = {}, in which the program has {} already",
                                config.train.host_memory, format_bytes(taken));
}

std::string raised_limit(const train::Run& run, const Room& room, const planner::MemoryUse& use,
                         bool on_device) {
  const double need = use.total().value();
  if (on_device && run.config.train.gpu_memory > 0)
    return fmt::format(", or raise train.gpu_memory to {}", gigabytes_for(need));
  const bool is_limited = room.host_bytes < room.host_there;
  if (on_device || !is_limited || need > static_cast<double>(room.host_there)) return "";
  return fmt::format(", or raise train.host_memory to {}",
                     gigabytes_for(need + static_cast<double>(room.host_taken)));
}

}  // namespace dos::fit
