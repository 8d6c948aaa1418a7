// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "ranks/exchange.hpp"
#include "rt/access.hpp"
#include "rt/device.hpp"

namespace dos::ranks {

/// Sends and receives the contents of handles in the order of submission, as if by tasks: a send
/// starts when the tasks before it have written the handle, and holds back those that overwrite it
/// until it has arrived; a receive starts when the tasks before it have used the handle, and holds
/// back those that read it. StarPU brings the elements to the memory node from and to which MPI
/// copies. One thread submits.
class HandleTransfers {
 public:
  /// `node`: rt::kHostNode, or that of a CUDA device where MPI knows GPUs; the other rank's may be
  /// another.
  explicit HandleTransfers(Exchange& exchange, int node = rt::kHostNode)
      : exchange_(exchange), node_(node) {}
  HandleTransfers(const HandleTransfers&) = delete;
  HandleTransfers& operator=(const HandleTransfers&) = delete;
  /// Waits as wait() does.
  ~HandleTransfers() { wait(); }

  /// To every rank in `peers`. `handle` must outlive the transfer.
  void send(const rt::Handle& handle, const std::vector<Index>& peers, const MessageName& name);
  /// The first `count` elements; the others are lost.
  void receive(const rt::Handle& handle, Index count, Index peer, const MessageName& name);

  /// Blocks until all transfers are over, those of a failed exchange without having arrived.
  void wait();

 private:
  class Transfer;
  void begin(std::unique_ptr<Transfer> transfer, rt::Mode mode);
  void end_one();

  Exchange& exchange_;
  int node_;
  std::mutex mutex_;
  std::condition_variable over_;
  Index under_way_ = 0;
};

}  // namespace dos::ranks
