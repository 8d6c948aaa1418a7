// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simulated/node_protocol.hpp"
#include "simulated/simulation_request.hpp"

namespace dos::bench {

/// Runs the update phase on the devices of this machine, real updates on real memory: AdamW in
/// BF16. CUDA devices are the GPUs, or OpenCL devices where no NVIDIA GPU is. Before each update
/// gradients are on the GPUs alone, and it is over when every GPU has all working parameters.
/// Throws Error when the machine has fewer devices or less memory than the phase needs.
NodeResult run_here(const UpdatePhase& phase);

}  // namespace dos::bench
