// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/awaited.hpp"
#include "storage/backend.hpp"
#include "storage/blocks.hpp"
#include "storage/direct_file.hpp"
#include "storage/engine.hpp"
#include "storage/observer.hpp"
#include "storage/pages.hpp"

namespace dos::storage {

/// What a caller has asked an engine for.
struct Transfer {
  const DirectFile& file;
  Kind kind;
  Index offset;
  std::span<std::byte> memory;
  Done done;
  Label label;
  Index left = 0;  ///< blocks that have not ended
  std::string fault{};
  bool has_ended = false;
  std::unique_ptr<AwaitedTransfer> awaited{};  ///< from its being queued to its end, if it is
  // For who looks on:
  Index moved = 0;                                ///< bytes
  std::chrono::steady_clock::time_point start{};  ///< of the first operation, if somebody did then
};

/// Whether computing waits for a transfer: for activations. All else has time.
inline bool is_awaited(const Transfer& transfer) {
  return transfer.label.purpose == Purpose::kActivations;
}

/// A block that waits or is under way.
struct Task {
  std::shared_ptr<Transfer> transfer;
  Block block;
  std::byte* memory = nullptr;
  int tries = 0;
  Pages* buffer = nullptr;  ///< instead of the memory, while it is under way
};

/// A device's part of an engine: what waits for it, and its buffers. The engine's thread's.
struct DeviceQueue {
  /// In the order of service: backward waits for activations that are read, forward for memory that
  /// they are written from.
  std::array<std::deque<Task>, 3> queues;
  Index under_way = 0;
  std::vector<std::unique_ptr<Pages>> buffers;
  std::vector<Pages*> free_buffers;

  [[nodiscard]] std::deque<Task>& queue_of(const Transfer& transfer) {
    if (!is_awaited(transfer)) return queues[2];
    return queues[transfer.kind == Kind::kRead ? 0 : 1];
  }
  /// The queue whose first task is next; null: nothing waits.
  [[nodiscard]] std::deque<Task>* next() {
    for (std::deque<Task>& queue : queues)
      if (!queue.empty()) return &queue;
    return nullptr;
  }
  Pages* take_buffer(Index bytes) {
    if (free_buffers.empty()) {
      buffers.push_back(std::make_unique<Pages>(bytes));
      free_buffers.push_back(buffers.back().get());
    }
    Pages* buffer = free_buffers.back();
    free_buffers.pop_back();
    return buffer;
  }
};

}  // namespace dos::storage
