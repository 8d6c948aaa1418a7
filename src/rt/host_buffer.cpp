// SPDX-License-Identifier: Apache-2.0
#include "rt/host_buffer.hpp"

#include <starpu.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"

namespace dos::rt {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
/// Of buffers that share huge pages.
constexpr std::size_t kLeastShared = std::size_t{64} << 10;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr int kMapping = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

std::byte* map_zeroed(std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, kProtection, kMapping, -1, 0);
  expect(address != MAP_FAILED,
         "the system refuses {} of memory: use a smaller model, batch or context, or recompute",
         format_bytes(static_cast<Index>(bytes)));
  return static_cast<std::byte*>(address);
}

/// Maps `bytes`, a multiple of the page, at a huge page boundary. What is left over of the last
/// huge page stays in small ones: rounded up, buffers of a few megabytes would take a sixth more
/// than they are counted for.
std::byte* map_aligned(std::size_t bytes) {
  std::byte* raw = map_zeroed(bytes + kHugePage);
  const auto address = reinterpret_cast<std::uintptr_t>(raw);
  const std::size_t skip = round_up(address, kHugePage) - address;
  if (skip != 0) ::munmap(raw, skip);
  if (skip != kHugePage) ::munmap(raw + skip + bytes, kHugePage - skip);
  return raw + skip;
}

/// Ends at `end`; null where something lies there.
std::byte* map_before(std::byte* end, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(end) <= bytes) return nullptr;
  void* const wanted = end - bytes;
  void* const address = ::mmap(wanted, bytes, kProtection, kMapping | MAP_FIXED_NOREPLACE, -1, 0);
  if (address == wanted) return static_cast<std::byte*>(address);
  if (address != MAP_FAILED) ::munmap(address, bytes);  // Linux before 4.17 takes it for a wish
  return nullptr;
}

/// Each buffer lies right before the last one, where there is room: what fills no huge page of one
/// shares it with the other.
std::byte* map_in_line(std::size_t bytes) {
  static std::mutex mutex;
  static std::byte* line = nullptr;
  const std::lock_guard lock(mutex);
  std::byte* data = map_before(line, bytes);
  if (data == nullptr) data = map_aligned(bytes);
  line = data;
  return data;
}

std::byte* map_huge(std::size_t bytes, HostBuffer::Pages pages) {
  // What nobody writes is not taken either by its neighbour's huge page.
  std::byte* data = pages == HostBuffer::Pages::kOnDemand ? map_aligned(bytes) : map_in_line(bytes);
  ::madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void pin(std::byte* data, std::size_t bytes) {
  static std::atomic_flag warned;
  if (starpu_memory_pin(data, bytes) == 0 || starpu_cuda_worker_get_count() == 0) return;
  if (!warned.test_and_set())
    log::warn(
        "CUDA refuses to pin {} of host memory: copies to and from GPUs will not overlap kernels",
        format_bytes(static_cast<Index>(bytes)));
}

}  // namespace

HostBuffer::HostBuffer(Index bytes, Pages pages) : is_pinned_(pages == Pages::kPinned) {
  require(bytes >= 0, "buffer size is not negative");
  const auto wanted = static_cast<std::size_t>(bytes == 0 ? 1 : bytes);
  const bool huge = wanted >= (is_pinned_ ? kLeastShared : kHugePage);
  mapped_bytes_ = round_up(wanted, kPage);
  data_ = huge ? map_huge(mapped_bytes_, pages) : map_zeroed(mapped_bytes_);
  if (is_pinned_) pin(data_, mapped_bytes_);
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      is_pinned_(other.is_pinned_) {}

HostBuffer::~HostBuffer() {
  if (data_ == nullptr) return;
  if (is_pinned_) starpu_memory_unpin(data_, mapped_bytes_);
  if (::munmap(data_, mapped_bytes_) != 0) log::error("munmap of {} bytes failed", mapped_bytes_);
}

}  // namespace dos::rt
