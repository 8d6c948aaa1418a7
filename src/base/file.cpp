// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/error.hpp"

namespace dos {
namespace {

/// Closes a descriptor when the scope ends: for the ways out that throw.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(descriptor_); }

 private:
  int descriptor_;
};

/// A device, a pipe, a socket: rename() would put a file in its place. In that of a folder it
/// fails.
bool is_special(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_errno(path.string() + ": cannot open", errno);
  const Descriptor guard(descriptor);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) fail_errno(path.string() + ": cannot stat", errno);
  expect(S_ISREG(info.st_mode), "{}: not a regular file", path.string());
  if (info.st_size == 0) return;
  const auto size = static_cast<std::size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) fail_errno(path.string() + ": cannot map", errno);
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

DurableFile::DurableFile(std::filesystem::path path) : path_(std::move(path)), temporary_(path_) {
  expect(!is_special(path_), "{}: is not a regular file and would be replaced by one: name another",
         path_.string());
  temporary_ += ".tmp";
  descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_errno(temporary_.string() + ": cannot create", errno);
}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      written_(other.written_) {}

DurableFile::~DurableFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void DurableFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(temporary_.string() + ": cannot write", errno);
    written_ += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void DurableFile::write_at(Index offset, std::span<const std::byte> bytes) {
  require(offset >= 0 && offset + std::ssize(bytes) <= written_,
          "write_at outside the written part");
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(temporary_.string() + ": cannot write", errno);
    offset += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void DurableFile::commit() {
  if (::fsync(descriptor_) != 0) fail_errno(temporary_.string() + ": cannot flush", errno);
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int cause = errno;
    ::unlink(temporary_.c_str());
    fail_errno(path_.string() + ": cannot put in place", cause);
  }
  sync_directory(path_.has_parent_path() ? path_.parent_path() : ".");
}

void write_durably(const std::filesystem::path& path, std::string_view text) {
  DurableFile file(path);
  file.write(text);
  file.commit();
}

void sync_directory(const std::filesystem::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_errno(directory.string() + ": cannot open", errno);
  const Descriptor guard(descriptor);
  if (::fsync(descriptor) != 0) fail_errno(directory.string() + ": cannot flush", errno);
}

std::string read_text(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void expect_output_written() {
  if (std::fflush(stdout) != 0) fail_errno("standard output: cannot write", errno);
  expect(std::ferror(stdout) == 0, "standard output: could not be written");
}

}  // namespace dos
