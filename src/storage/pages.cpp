// SPDX-License-Identifier: Apache-2.0
#include "storage/pages.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.hpp"

namespace dos::storage {
namespace {

constexpr Index kLargePage = 2 << 20;

}  // namespace

Index Pages::taken(Index bytes) {
  return ceil_div(bytes, kLargePage) * kLargePage;
}

Pages::Pages(Index bytes) : bytes_(bytes) {
  require(bytes > 0, "memory of some bytes");
  const auto whole = static_cast<std::size_t>(taken(bytes));
  data_ = static_cast<std::byte*>(std::aligned_alloc(kLargePage, whole));
  if (data_ == nullptr) fail_errno(fmt::format("{} bytes of memory for files", whole), ENOMEM);
  // Advice only: without it the pages are small.
  ::madvise(data_, whole, MADV_HUGEPAGE);
}

Pages::~Pages() {
  std::free(data_);
}

}  // namespace dos::storage
