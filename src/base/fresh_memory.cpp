// SPDX-License-Identifier: Apache-2.0
#include "base/fresh_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace dos {
namespace {

/// A large page.
constexpr std::size_t kPiece = std::size_t{2} << 20;

#ifdef MADV_POPULATE_WRITE
constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
constexpr int kPopulate = 23;  // of Linux, where the C library does not know it yet
#endif

}  // namespace

FreshMemory::FreshMemory(std::vector<std::span<std::byte>> memory) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::span<std::byte> rest : memory) {
    while (!rest.empty()) {
      // Up to where the next large page begins.
      const std::size_t past = reinterpret_cast<std::uintptr_t>(rest.data()) % kPiece;
      const std::span<std::byte> piece = rest.first(std::min(rest.size(), kPiece - past));
      rest = rest.subspan(piece.size());
      // Pages that are shared with something else are left to who touches them.
      const std::size_t before = (page - past % page) % page;
      const std::size_t whole = piece.size() < before ? 0 : (piece.size() - before) / page * page;
      if (whole > 0) pieces_.emplace_back(piece.data() + before, whole);
    }
  }
}

bool FreshMemory::find_pages() {
  const std::size_t number = next_.fetch_add(1);
  if (number >= pieces_.size()) return false;
  const auto& [data, bytes] = pieces_[number];
  if (::madvise(data, bytes, kPopulate) == 0) return true;
  next_ = pieces_.size();
  return false;
}

}  // namespace dos
