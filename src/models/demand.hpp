// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rt/memory_ledger.hpp"
#include "shape/activation_sets.hpp"
#include "shape/family_shape.hpp"

/// What a model takes, before it is built.
namespace dos::rt {
class Session;
}

namespace dos::models {

/// What runs lanes in the session.
shape::LaneWorkers lane_workers(const rt::Session& session);

/// The workers that share a model's tasks: each has work space of its own, all of one size.
struct WorkerCount {
  Index all = 1;   ///< of every kind
  Index cuda = 0;  ///< of them
};

/// What of a run the runtime keeps records of.
struct RunCounts {
  Index buffers = 0;  ///< that the model registers
  Index tasks = 0;    ///< of forward and backward of a micro-batch, at most
};

/// Numbers in the logits buffer of a lane with so many tokens: min(tokens, logits_rows) rows.
Index logits_count(const shape::ModelConfig& config, const shape::RunShape& run, Index tokens);

/// FP32 elements of work space that one task of attention takes.
Index workspace_count(const shape::ModelConfig& config, bool on_cuda);

/// Device memory that the kernels of a CUDA worker share (rt::CudaWorkspaces) for such a model with
/// activations of a type, with the library of attention that is chosen (codelets::gpu_attention()).
Index cuda_workspace_bytes(const shape::ModelConfig& config, DType type);

/// Has each CUDA worker of the running session make what its first tasks would have to make. No
/// tasks may be pending.
void prepare_gpus(const shape::ModelConfig& config, const shape::RunShape& run);

/// Bytes of slots in host memory for activations that devices do not keep. `reached`: blocks that
/// backward goes through.
Index host_slot_bytes(const shape::ModelConfig& config, const shape::RunShape& run, Index reached);

/// Bytes of activations, work space and token buffers that a Decoder registers: activations as
/// shape::count_activations() has them for every token, host_slot_bytes(), and the logits of each
/// lane. `reached` as above.
rt::MemoryBytes buffers(const shape::ModelConfig& config, const shape::RunShape& run,
                        const WorkerCount& workers, Index reached = shape::Passes().reached);

/// Bytes of these activations that take no host memory where CUDA devices run the model: nothing of
/// them goes to slots or disks.
Index bytes_on_devices(const shape::ModelConfig& config, const shape::RunShape& run, Index reached);

/// How one sequence is continued (continuation.hpp).
struct ContinuationShape {
  Index chunk = 1;           ///< tokens of a pass over several, at most the context
  Index lanes = 1;           ///< such passes that may run side by side, each in buffers of its own
  DType type = DType::kF32;  ///< of activations, keys, values and logits

  /// How its passes run.
  [[nodiscard]] shape::RunShape run() const {
    return {.training = false, .logits_rows = 1, .type = type};
  }
};

/// Bytes that a Continuation registers for a sequence of config.context tokens.
rt::MemoryBytes buffers(const shape::ModelConfig& config, const ContinuationShape& shape,
                        const WorkerCount& workers);

/// Buffers and tasks of a run.
RunCounts counts(const shape::ModelConfig& config, const shape::RunShape& run,
                 const shape::Layout& layout);

}  // namespace dos::models
