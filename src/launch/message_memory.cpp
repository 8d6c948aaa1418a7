// SPDX-License-Identifier: Apache-2.0
#include "launch/message_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace dos::launch {
namespace {

MessageMemory in_host_memory(const char* reason) {
  return {std::nullopt, fmt::format("messages go through host memory: {}", reason)};
}

}  // namespace

MessageMemory choose_message_memory(const std::string& setting, bool mpi_knows_gpus,
                                    const std::vector<rt::Device>& devices) {
  std::vector<rt::Device> gpus;
  std::copy_if(devices.begin(), devices.end(), std::back_inserter(gpus),
               [](const rt::Device& device) { return device.is_cuda; });
  if (gpus.empty()) return in_host_memory("no GPU computes here");
  if (setting == "off") return in_host_memory("dist.gpu_messages = off");
  if (!mpi_knows_gpus) return in_host_memory("this MPI does not know GPUs");
  if (gpus.size() > 1) return in_host_memory("a rank has several GPUs");
  return {gpus.front(),
          fmt::format("MPI sends gradients from, and receives parameters in, the memory of {}",
                      gpus.front().name)};
}

}  // namespace dos::launch
