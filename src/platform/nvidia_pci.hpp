// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hwloc.h>

namespace dos::platform {

/// Whether a PCI device is an NVIDIA GPU, whatever driver it has.
inline bool is_nvidia_gpu(const hwloc_obj& device) {
  constexpr unsigned kNvidia = 0x10de;
  constexpr unsigned kDisplayControllers = 0x03;  // the upper byte of the PCI class
  const auto& pci = device.attr->pcidev;
  return pci.vendor_id == kNvidia && pci.class_id >> 8U == kDisplayControllers;
}

}  // namespace dos::platform
