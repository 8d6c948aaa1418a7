// SPDX-License-Identifier: Apache-2.0
#include "rt/traced_vector.hpp"

#include <starpu.h>

#include <cstdint>

#include "rt/trace_sink.hpp"

namespace dos::rt {
namespace {

// StarPU has no call-back for a copy in version 1.3, and none that names the link in 1.4. But it
// makes every copy of a buffer through the methods of the buffer's interface, so these are the
// vector's own with a clock around them. The number of the buffer travels in slice_base, which only
// StarPU's OpenMP support uses. On a device, StarPU gives memory of one buffer to another together
// with the description of the first: the side in host memory, which is never given away, tells.

const starpu_vector_interface& side_in_host_memory(const void* source, unsigned source_node,
                                                   const void* target) {
  return *static_cast<const starpu_vector_interface*>(source_node == STARPU_MAIN_RAM ? source
                                                                                     : target);
}

int traced_copy(void* source, unsigned source_node, void* target, unsigned target_node,
                void* async) {
  const double start_us = trace_clock_us();
  const int result = starpu_interface_vector_ops.copy_methods->any_to_any(
      source, source_node, target, target_node, async);
  with_trace_sink([&](TraceSink& sink) {
    const starpu_vector_interface& vector = side_in_host_memory(source, source_node, target);
    sink.copied({.handle = Index{vector.slice_base} - 1,
                 .from = static_cast<int>(source_node),
                 .to = static_cast<int>(target_node),
                 .bytes = static_cast<Index>(vector.nx * vector.elemsize),
                 .start_us = start_us,
                 .end_us = trace_clock_us(),
                 .is_over = result == 0});
  });
  return result;
}

starpu_data_interface_ops* traced_operations() {
  static starpu_data_copy_methods methods = [] {
    starpu_data_copy_methods copied = *starpu_interface_vector_ops.copy_methods;
    copied.any_to_any = &traced_copy;
    return copied;
  }();
  static starpu_data_interface_ops operations = [] {
    starpu_data_interface_ops copied = starpu_interface_vector_ops;
    copied.copy_methods = &methods;
    return copied;
  }();
  return &operations;
}

}  // namespace

void register_traced_vector(RawHandle* handle, std::byte* home, const VectorElements& elements,
                            Index number) {
  starpu_vector_interface vector{};
  vector.id = STARPU_VECTOR_INTERFACE_ID;
  vector.ptr = vector.dev_handle = reinterpret_cast<std::uintptr_t>(home);
  vector.nx = static_cast<std::uint32_t>(elements.count);
  vector.elemsize = static_cast<std::size_t>(elements.bytes);
  vector.allocsize = static_cast<std::size_t>(elements.room * elements.bytes);
  vector.slice_base = static_cast<std::uint32_t>(number + 1);
  starpu_data_register(handle, STARPU_MAIN_RAM, &vector, traced_operations());
}

}  // namespace dos::rt
