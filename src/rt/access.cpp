// SPDX-License-Identifier: Apache-2.0
#include "rt/access.hpp"

#include <starpu.h>

#include <memory>

#include "base/error.hpp"
#include "rt/device.hpp"
#include "rt/progress.hpp"
#include "rt/starpu_mode.hpp"

namespace dos::rt {
namespace {

struct Request {
  RawHandle handle;
  int node;
  AccessListener& listener;
};

void acquire(const Handle& handle, int node, Mode mode, void (*callback)(void*), void* argument) {
  const int result =
      starpu_data_acquire_on_node_cb(handle.raw(), node, to_starpu(mode), callback, argument);
  require(result == 0, "starpu_data_acquire_on_node_cb");
}

/// An access of the same mode to no memory: StarPU does not say when one stops to wait for others
/// and begins to wait for memory.
void on_due(void* handle) noexcept {
  note_due_access();
  starpu_data_release_on_node(static_cast<RawHandle>(handle), STARPU_ACQUIRE_NO_NODE);
}

void on_granted(void* argument) noexcept {
  const std::unique_ptr<Request> request(static_cast<Request*>(argument));
  if (request->node != kHostNode) note_granted_access();
  request->listener.granted(
      starpu_data_handle_to_pointer(request->handle, static_cast<unsigned>(request->node)));
}

struct Notice {
  RawHandle handle;
  AccessListener& listener;
};

void on_written(void* argument) noexcept {
  const std::unique_ptr<Notice> notice(static_cast<Notice*>(argument));
  starpu_data_release_on_node(notice->handle, STARPU_ACQUIRE_NO_NODE);
  notice->listener.granted(nullptr);
}

/// Deletes itself.
class Touch final : public AccessListener {
 public:
  Touch(const Handle& handle, int node) : handle_(handle), node_(node) {}
  void granted(void* /*data*/) noexcept override {
    const std::unique_ptr<Touch> over(this);
    end_access(handle_, node_);
  }

 private:
  const Handle& handle_;
  int node_;
};

}  // namespace

void request_access(const Handle& handle, int node, Mode mode, AccessListener& listener) {
  require(mode != Mode::kScratch, "an access to the elements of a handle");
  // Buffers have their memory on the host from the beginning.
  if (node != kHostNode) acquire(handle, STARPU_ACQUIRE_NO_NODE, mode, &on_due, handle.raw());
  auto request = std::make_unique<Request>(Request{handle.raw(), node, listener});
  acquire(handle, node, mode, &on_granted, request.get());
  static_cast<void>(request.release());
}

void touch(const Handle& handle, int node, Mode mode) {
  request_access(handle, node, mode, *new Touch(handle, node));
}

void await_contents(const Handle& handle, AccessListener& listener) {
  auto notice = std::make_unique<Notice>(Notice{handle.raw(), listener});
  acquire(handle, STARPU_ACQUIRE_NO_NODE, Mode::kRead, &on_written, notice.get());
  static_cast<void>(notice.release());
}

void end_access(const Handle& handle, int node) {
  // Before the next one is granted.
  if (node != kHostNode) note_end_of_access();
  starpu_data_release_on_node(handle.raw(), node);
}

}  // namespace dos::rt
