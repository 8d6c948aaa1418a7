// SPDX-License-Identifier: Apache-2.0
#include "rt/handle.hpp"

#include <starpu.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "base/units.hpp"
#include "rt/live_handles.hpp"
#include "rt/starpu_mode.hpp"
#include "rt/trace_sink.hpp"
#include "rt/traced_vector.hpp"

namespace dos::rt {
namespace {

HandleSpec checked(HandleSpec spec) {
  expect(spec.count >= 0 && spec.count <= std::numeric_limits<std::uint32_t>::max(),
         "buffer '{}' has {} elements, StarPU's vectors hold at most 2^32 - 1: use a smaller "
         "batch, more "
         "lanes or smaller subgroups",
         spec.name, spec.count);
  require(spec.lent == nullptr || !spec.stays_on_devices, "a buffer on devices has its own home");
  return spec;
}

}  // namespace

Handle::Handle(Session& session, HandleSpec spec)
    : session_(session),
      spec_(checked(std::move(spec))),
      counted_bytes_(spec_.lent == nullptr && !spec_.stays_on_devices ? bytes() : 0) {
  using Pages = HostBuffer::Pages;
  if (spec_.lent == nullptr)
    home_.emplace(bytes(), spec_.stays_on_devices ? Pages::kOnDemand : Pages::kPinned);
  session_.memory().add(spec_.category, counted_bytes_);
  register_home();
  if (spec_.kept_on != STARPU_MAIN_RAM && bytes() > 0) register_kept();
  starpu_data_set_name(raw_, spec_.name.c_str());
  session_.add(*this);
  LiveHandles::instance().add(*this);
}

void Handle::register_home() {
  std::byte* home = home_ ? home_->data() : spec_.lent;
  with_trace_sink([&](TraceSink& sink) {
    trace_number_ = sink.next_handle();
    register_traced_vector(&raw_, home,
                           {.count = spec_.count, .room = room(), .bytes = size_of(spec_.type)},
                           trace_number_);
    sink.handle_appeared(trace_number_, raw_, spec_);
  });
  if (trace_number_ >= 0) return;
  starpu_vector_data_register_allocsize(
      &raw_, STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(home),
      static_cast<std::uint32_t>(spec_.count), static_cast<std::size_t>(size_of(spec_.type)),
      static_cast<std::size_t>(room() * size_of(spec_.type)));
}

void Handle::register_kept() {
  const auto node = static_cast<unsigned>(spec_.kept_on);
  kept_ = starpu_malloc_on_node(node, static_cast<std::size_t>(bytes()));
  if (kept_ == 0) {
    starpu_data_unregister_no_coherency(raw_);
    session_.memory().remove(spec_.category, counted_bytes_);
    fail(
        "{} of memory on a device for '{}', which stays there, are refused: is the device used "
        "by another program?",
        format_bytes(bytes()), spec_.name);
  }
  starpu_vector_ptr_register(raw_, node, kept_, kept_, 0);
}

Handle::Handle(Session& session, HandleSpec spec, ScratchTag)
    : session_(session),
      spec_(checked(std::move(spec))),
      counted_bytes_(session.cuda_workers() > 0 ? 0 : bytes() * session.workers()) {
  session_.memory().add(spec_.category, counted_bytes_);
  starpu_vector_data_register(&raw_, -1, 0, static_cast<std::uint32_t>(spec_.count),
                              static_cast<std::size_t>(size_of(spec_.type)));
  starpu_data_set_name(raw_, spec_.name.c_str());
  session_.add(*this);
  LiveHandles::instance().add(*this);
}

std::unique_ptr<Handle> Handle::scratch(Session& session, std::string name, DType type,
                                        Index count) {
  return std::unique_ptr<Handle>(new Handle(session,
                                            {.name = std::move(name),
                                             .type = type,
                                             .count = count,
                                             .category = MemoryCategory::kWorkspace},
                                            ScratchTag{}));
}

void Handle::release() const {
  const int result = starpu_data_acquire_on_node_cb(
      raw_, STARPU_ACQUIRE_NO_NODE_LOCK_ALL, STARPU_W,
      [](void* handle) { static_cast<const Handle*>(handle)->note_copies(); },
      const_cast<Handle*>(this));
  require(result == 0, "starpu_data_acquire_on_node_cb");
  starpu_data_invalidate_submit(raw_);
}

void drop_copies(RawHandle buffer) {
  const int home = starpu_data_get_home_node(buffer);
  require(home >= 0, "a buffer with a home");
  const int result = starpu_data_acquire_on_node_cb(
      buffer, home, STARPU_W,
      [](void* raw) {
        auto* const dropped = static_cast<starpu_data_handle_t>(raw);
        starpu_data_release_on_node(dropped, starpu_data_get_home_node(dropped));
      },
      buffer);
  require(result == 0, "starpu_data_acquire_on_node_cb");
}

void Handle::note_copies() const noexcept {
  std::uint64_t nodes = 0;
  for (unsigned node = 1; node < starpu_memory_nodes_get_count(); ++node) {
    int is_allocated = 0;
    starpu_data_query_status(raw_, static_cast<int>(node), &is_allocated, nullptr, nullptr);
    if (is_allocated != 0) nodes |= std::uint64_t{1} << node;
  }
  released_from_ = nodes;
  starpu_data_release_on_node(raw_, STARPU_ACQUIRE_NO_NODE_LOCK_ALL);
}

void Handle::move_home(std::byte* lent) const {
  require(spec_.lent != nullptr, "a buffer in lent memory");
  auto* vector = static_cast<starpu_vector_interface*>(
      starpu_data_get_interface_on_node(raw_, STARPU_MAIN_RAM));
  vector->ptr = vector->dev_handle = reinterpret_cast<std::uintptr_t>(lent);
}

void Handle::stand_for(const Handle& other) const {
  starpu_data_set_user_data(raw_, other.raw_);
}

bool Handle::was_released_from(int node) const noexcept {
  return (released_from_ >> node & 1) != 0;
}

Handle::~Handle() {
  session_.remove(*this);
  LiveHandles::instance().remove(*this);
  if (trace_number_ >= 0)
    with_trace_sink([&](TraceSink& sink) { sink.handle_goes(trace_number_); });
  // StarPU knows buffers by the address that they were registered with.
  if (spec_.lent != nullptr) move_home(spec_.lent);
  starpu_data_unregister_no_coherency(raw_);
  if (kept_ != 0)
    starpu_free_on_node(static_cast<unsigned>(spec_.kept_on), kept_,
                        static_cast<std::size_t>(bytes()));
  session_.memory().remove(spec_.category, counted_bytes_);
}

HostAccess::HostAccess(const Handle& handle, Mode mode) : handle_(handle) {
  const int result = starpu_data_acquire(handle.raw(), to_starpu(mode));
  require(result == 0, "starpu_data_acquire");
  data_ = starpu_data_get_local_ptr(handle.raw());
}

HostAccess::~HostAccess() {
  starpu_data_release(handle_.raw());
}

}  // namespace dos::rt
