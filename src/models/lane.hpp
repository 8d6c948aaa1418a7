// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "models/block.hpp"
#include "shape/family_shape.hpp"
#include "tensor/host_activations.hpp"

namespace dos::models {

using HandlePtr = std::unique_ptr<rt::Handle>;

/// Every buffer of one lane: n tokens, width C, vocabulary V. Block l uses blocks[l], in which
/// blocks may have the same buffers, and gradients[l % size]: with two sets of gradients the weight
/// gradients of one block may still run while the next block's backward does.
struct Lane {
  LaneShape shape{};
  HandlePtr tokens;               ///< I32 [sequences, context + 1]
  HandlePtr loss;                 ///< FP64 [1]
  HandlePtr logits;               ///< [min(n, logits_rows), shape::logits_stride(V)]
  std::vector<HandlePtr> stream;  ///< [n, C] each: the input of every block, then the last output
  HandlePtr last_norm;            ///< [n, C]
  HandlePtr last_norm_stats;      ///< FP32 [n, Family::norm_statistics]
  HandlePtr d_last_norm;          ///< [n, C], training only
  HandlePtr d_stream;             ///< [n, C]: gradient of the last output, training only
  std::vector<BlockBuffers> blocks;
  /// By block: what is of no use any more once its backward is over.
  std::vector<std::vector<const rt::Handle*>> dead_after;
  /// By block: what goes to a store until backward, and its slot there.
  struct Moved {
    const rt::Handle* buffer;
    tensor::ActivationStore* store;
    Index slot;
  };
  std::vector<std::vector<Moved>> moved;
  /// By block: the homes of those of its buffers that have not always the same.
  struct Home {
    const rt::Handle* buffer;
    Index slot;  ///< in host memory
  };
  std::vector<std::vector<Home>> homes;
  std::vector<BlockBuffers> gradients;  ///< empty unless training
};

/// Where activations go that blocks do not keep.
struct ActivationStores {
  tensor::ActivationStore* disk = nullptr;  ///< null: the run moves none to disks
  tensor::HostActivations* host = nullptr;  ///< null: to host memory
  int node = rt::kHostNode;                 ///< in whose memory the lane's tasks need them
};

/// `reached`: blocks that backward goes through. The stores get slots for what is moved.
Lane make_lane(rt::Session& session, const shape::Family& family, const shape::ModelConfig& config,
               const shape::RunShape& run, Index reached, Index index,
               const ActivationStores& stores = {});

}  // namespace dos::models
