// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos::test {

/// Lets OpenCL devices stand in for GPUs while it lives: what has a CUDA implementation runs on
/// them alone, updates there or on a CPU, by the CPU's functions on the device's own buffers.
/// Coherence, transfers and placement are real, and results those of the CPU, bit for bit. No
/// session may run when it begins or ends.
class OpenclGpus {
 public:
  OpenclGpus();
  OpenclGpus(const OpenclGpus&) = delete;
  OpenclGpus& operator=(const OpenclGpus&) = delete;
  ~OpenclGpus();
};

}  // namespace dos::test
