// SPDX-License-Identifier: Apache-2.0
#include "rt/access.hpp"

#include <starpu.h>

#include <memory>

#include "base/error.hpp"
#include "rt/starpu_mode.hpp"

namespace dos::rt {
namespace {

struct Request {
  RawHandle handle;
  int node;
  AccessListener& listener;
};

void on_granted(void* argument) noexcept {
  const std::unique_ptr<Request> request(static_cast<Request*>(argument));
  request->listener.granted(
      starpu_data_handle_to_pointer(request->handle, static_cast<unsigned>(request->node)));
}

}  // namespace

void request_access(const Handle& handle, int node, Mode mode, AccessListener& listener) {
  require(mode != Mode::kScratch, "an access to the elements of a handle");
  auto request = std::make_unique<Request>(Request{handle.raw(), node, listener});
  const int result = starpu_data_acquire_on_node_cb(handle.raw(), node, to_starpu(mode),
                                                    &on_granted, request.get());
  require(result == 0, "starpu_data_acquire_on_node_cb");
  static_cast<void>(request.release());
}

void end_access(const Handle& handle, int node) {
  starpu_data_release_on_node(handle.raw(), node);
}

}  // namespace dos::rt
