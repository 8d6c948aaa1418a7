// SPDX-License-Identifier: Apache-2.0
// Replaces operator new and delete. A file of its own: where they are inlined, GCC takes malloc and
// delete for a pair that does not match.
#include "sched_starpu/counted_allocations.hpp"

#include <cstdlib>
#include <new>

namespace {

dos::Index count = 0;

}  // namespace

dos::Index dos::test::allocations() {
  return count;
}

void* operator new(std::size_t bytes) {
  ++count;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
// The standard library's sorts ask so for work space, and give it back to the delete below.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  ++count;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
