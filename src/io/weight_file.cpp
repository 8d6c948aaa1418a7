// SPDX-License-Identifier: Apache-2.0
#include "io/weight_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "base/error.hpp"

namespace dos::io {
namespace {

/// Of bytes that are asked about.
Index page_size() {
  static const Index size = ::sysconf(_SC_PAGESIZE);
  return size;
}

/// Reads up to the end of `out`, or of the file; returns how many bytes, or -1 where the file
/// system refuses.
Index read_units(int descriptor, Index offset, std::span<std::byte> out, Index wanted,
                 const std::filesystem::path& path) {
  Index done = 0;
  while (done < wanted) {
    const ssize_t count = ::pread(descriptor, out.data() + done,
                                  out.size() - static_cast<std::size_t>(done), offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EINVAL) return -1;
    if (count < 0) fail_errno(path.string() + ": cannot read", errno);
    if (count == 0) break;
    done += count;
  }
  return done;
}

}  // namespace

WeightFile::WeightFile(const std::filesystem::path& path)
    : input_(path), direct_(storage::File::open(path)), mapping_(path) {
  // The system reads ahead of us: the disk works while elements are converted.
  static_cast<void>(::posix_fadvise(input_.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL));
}

bool WeightFile::prefers_direct(Index offset, Index bytes) const {
  if (!direct_.is_direct() || direct_.alignment() > ReadBuffer::kMostUnit) return false;
  const std::span<const std::byte> all = mapping_.bytes();
  const Index begin = offset / page_size() * page_size();
  const Index end = std::min(offset + bytes, std::ssize(all));
  if (begin >= end) return false;
  std::vector<unsigned char> pages(static_cast<std::size_t>((end - begin - 1) / page_size() + 1));
  // The kernel wants an address that may be written; it writes to `pages` only.
  void* address = const_cast<std::byte*>(all.data() + begin);
  if (::mincore(address, static_cast<std::size_t>(end - begin), pages.data()) != 0) return false;
  return std::ranges::any_of(pages, [](unsigned char page) { return (page & 1U) == 0; });
}

std::span<const std::byte> WeightFile::read_direct(Index offset, Index bytes,
                                                   ReadBuffer& buffer) const {
  require(bytes <= ReadBuffer::kBytes, "a read that fits its buffer");
  const Index unit = direct_.alignment();
  const Index begin = offset / unit * unit;
  const Index end = (offset + bytes + unit - 1) / unit * unit;
  const std::span<std::byte> memory =
      buffer.pages().bytes().first(static_cast<std::size_t>(end - begin));
  const Index wanted = offset + bytes - begin;
  Index found = read_units(direct_.direct(), begin, memory, wanted, input_.path());
  if (found < 0) {
    direct_.give_up_direct();
    found = input_.read(begin, memory);
  }
  const Index count = std::clamp<Index>(found - (offset - begin), 0, bytes);
  return memory.subspan(static_cast<std::size_t>(offset - begin), static_cast<std::size_t>(count));
}

}  // namespace dos::io
