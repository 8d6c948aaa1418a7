// SPDX-License-Identifier: Apache-2.0
#include "io/weight_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.hpp"

namespace dos::io {
namespace {

/// Of bytes that are asked about.
Index page_size() {
  static const Index size = ::sysconf(_SC_PAGESIZE);
  return size;
}

/// Whether a byte cannot be read without waiting for the disk.
bool is_missing(int descriptor, Index offset) {
  std::byte byte{};
  const iovec piece{.iov_base = &byte, .iov_len = 1};
  return ::preadv2(descriptor, &piece, 1, offset, RWF_NOWAIT) < 0 && errno == EAGAIN;
}

}  // namespace

ReadBuffer::~ReadBuffer() {
  forget();
}

std::span<const std::byte> ReadBuffer::bytes(Index offset, Index count) const {
  require(is_begun() && offset >= begin_ && offset + count <= begin_ + std::ssize(memory_),
          "bytes that were begun");
  require(fault().empty(), "bytes that could be read");
  return memory_.subspan(static_cast<std::size_t>(offset - begin_),
                         static_cast<std::size_t>(count));
}

void ReadBuffer::forget() {
  if (is_begun()) fault_.wait();
  fault_ = {};
}

WeightFile::WeightFile(const std::filesystem::path& path)
    : input_(path), direct_(storage::DirectFile::open(path)), mapping_(path) {
  // The system reads ahead of us: the disk works while elements are converted.
  static_cast<void>(::posix_fadvise(input_.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL));
}

bool WeightFile::is_away(Index offset, Index bytes) const {
  if (direct_.alignment() > ReadBuffer::kMostUnit) return false;
  const std::span<const std::byte> all = mapping_.bytes();
  const Index begin = offset / page_size() * page_size();
  const Index end = std::min(offset + bytes, std::ssize(all));
  if (begin >= end) return false;
  std::vector<unsigned char> pages(static_cast<std::size_t>((end - begin - 1) / page_size() + 1));
  // The kernel wants an address that may be written; it writes to `pages` only.
  void* address = const_cast<std::byte*>(all.data() + begin);
  if (::mincore(address, static_cast<std::size_t>(end - begin), pages.data()) != 0) return false;
  if (std::ranges::any_of(pages, [](unsigned char page) { return (page & 1U) == 0; })) return true;
  // Of files that are another's, and may not be written to, Linux says that all is there.
  return is_missing(input_.descriptor(), begin) ||
         is_missing(input_.descriptor(), begin + (end - begin) / 2) ||
         is_missing(input_.descriptor(), end - 1);
}

void WeightFile::begin(Index offset, Index bytes, ReadBuffer& buffer,
                       storage::Engine& engine) const {
  require(bytes > 0 && bytes <= buffer.most_ && !buffer.is_begun(), "a read that fits its buffer");
  if (buffer.pages_ == nullptr)
    buffer.pages_ = std::make_unique<storage::Pages>(buffer.most_ + 2 * ReadBuffer::kMostUnit);
  // Whole units, but for the last one of the file: they go to the memory without a copy.
  const Index unit = std::max<Index>(1, direct_.alignment());
  const Index begin = offset / unit * unit;
  const Index whole = ceil_div(offset + bytes, unit) * unit;
  const Index end = std::max(offset + bytes, std::min(whole, direct_.size()));
  const std::span memory = buffer.pages_->bytes().first(static_cast<std::size_t>(end - begin));
  const auto told = std::make_shared<std::promise<std::string>>();
  buffer.memory_ = memory;
  buffer.begin_ = begin;
  engine.read(direct_, begin, memory, [told](const std::string& fault) { told->set_value(fault); });
  buffer.fault_ = told->get_future().share();
}

}  // namespace dos::io
