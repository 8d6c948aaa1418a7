// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/streams.hpp"
#include "base/temporary.hpp"

namespace dos {
namespace {

/// A device, a pipe, a socket: rename() would put a file in its place. In that of a folder it
/// fails.
bool is_special(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

/// For reading, without waiting for the other end of a pipe.
int open_regular(const std::filesystem::path& path, struct stat& info) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) fail_errno(path.string() + ": cannot open", errno);
  const int cause = ::fstat(descriptor, &info) == 0 ? 0 : errno;
  if (cause == 0 && S_ISREG(info.st_mode)) return descriptor;
  ::close(descriptor);
  if (cause != 0) fail_errno(path.string() + ": cannot stat", cause);
  fail("{}: not a regular file; write what it gives to a file first", path.string());
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  struct stat info {};
  descriptor_ = open_regular(path, info);
  size_ = info.st_size;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Index InputFile::read(Index offset, std::span<std::byte> out) const {
  Index done = 0;
  while (done < std::ssize(out)) {
    const ssize_t count = ::pread(descriptor_, out.data() + done,
                                  out.size() - static_cast<std::size_t>(done), offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(path_.string() + ": cannot read", errno);
    if (count == 0) break;
    done += count;
  }
  return done;
}

DurableFile::DurableFile(std::filesystem::path path) : path_(std::move(path)) {
  expect(!is_special(path_), "{}: is not a regular file and would be replaced by one: name another",
         path_.string());
  remove_leftovers(path_);
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  do {
    if (descriptor_ >= 0) ::close(descriptor_);
    temporary_ = random_name_beside(path_);
    descriptor_ = ::open(temporary_.c_str(), kFlags, 0644);
    if (descriptor_ < 0 && errno != EEXIST) fail_errno(path_.string() + ": cannot create", errno);
  } while (descriptor_ < 0 || !keep_temporary(descriptor_));
}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      written_(other.written_),
      is_flushed_(other.is_flushed_) {}

DurableFile::~DurableFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void DurableFile::write(std::span<const std::byte> bytes) {
  is_flushed_ = false;
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(path_.string() + ": cannot write", errno);
    written_ += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void DurableFile::write_at(Index offset, std::span<const std::byte> bytes) {
  require(offset >= 0 && offset + std::ssize(bytes) <= written_,
          "write_at outside the written part");
  is_flushed_ = false;
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(path_.string() + ": cannot write", errno);
    offset += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void DurableFile::flush() {
  if (is_flushed_) return;
  const int cause = dos::flush(descriptor_);
  if (cause != 0) fail_errno(path_.string() + ": cannot flush", cause);
  is_flushed_ = true;
}

void DurableFile::commit() {
  flush();
  // Closed after that: what is not open any more may be taken for a leftover.
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail_errno(path_.string() + ": cannot put in place", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0)
    fail_errno(path_.string() + ": cannot write", errno);
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
  const int cause = flush(descriptor);
  if (cause != 0) fail_errno(directory.string() + ": cannot flush", cause);
}

std::string read_text(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  text.resize(static_cast<std::size_t>(file.read(0, std::as_writable_bytes(std::span(text)))));
  return text;
}

void expect_output_written() {
  if (const int cause = streams::flush_output(); cause != 0)
    fail_errno("standard output: cannot write", cause);
}

}  // namespace dos
