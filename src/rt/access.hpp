// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rt/handle.hpp"
#include "rt/mode.hpp"

namespace dos::rt {

/// Waits for access to a handle without a thread.
class AccessListener {
 public:
  AccessListener() = default;
  AccessListener(const AccessListener&) = delete;
  AccessListener& operator=(const AccessListener&) = delete;

  /// The handle's elements lie at `data`, in the memory of the node that was asked for, until
  /// end_access(). Called once, on a worker or on a thread that submits a task, requests or ends an
  /// access: it must not wait, nor submit.
  virtual void granted(void* data) noexcept = 0;

 protected:
  ~AccessListener() = default;
};

/// Asks for access to `handle` on a memory node (kHostNode, or Device::node) in
/// the order of submission, as a task would: after the tasks and accesses submitted before, and
/// before those submitted later. Returns at once; `listener` may have been called by then. Both
/// must live until end_access(). Pre: `mode` is not kScratch.
void request_access(const Handle& handle, int node, Mode mode, AccessListener& listener);

/// An access that is over once it is granted: after kRead the node has the contents, without a task
/// that waits for them.
void touch(const Handle& handle, int node, Mode mode);

/// Tells `listener` when the contents of `handle` are there, wherever that is: an access to no
/// memory, behind the tasks and accesses submitted before that write it, and over at once.
/// granted(nullptr).
void await_contents(const Handle& handle, AccessListener& listener);

/// Gives the handle back. Any thread. Pre: the access on this node was granted.
void end_access(const Handle& handle, int node);

}  // namespace dos::rt
