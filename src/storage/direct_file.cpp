// SPDX-License-Identifier: Apache-2.0
#include "storage/direct_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/temporary.hpp"
#include "storage/fallback.hpp"

namespace dos::storage {
namespace {

/// What every disk of the last decades takes; file systems that know better say it (statx).
constexpr Index kUsualAlignment = 4096;

struct Alignment {
  Index offset = kUsualAlignment;
  Index memory = kUsualAlignment;
};

/// Of a page and a block at least in the file: of one that is written through the cache in part and
/// past it in part, at once, the kernel may keep either, and says so as an error of the flush.
Index whole_pages(Index alignment, int descriptor) {
  const Index pages = std::max<Index>(alignment, ::sysconf(_SC_PAGESIZE));
  constexpr Index kLargestBlock = Index{64} << 10;  // some say what they like to transfer
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || info.st_blksize > kLargestBlock) return pages;
  return info.st_blksize % pages == 0 ? info.st_blksize : pages;
}

/// What offsets and addresses need; 0 where the kernel says that there are no direct transfers,
/// kUsualAlignment where it, or the headers of this build, say nothing.
template <class Statx>
Alignment alignment_of(int descriptor) {
  if constexpr (requires(Statx info) { info.stx_dio_offset_align; }) {
    constexpr unsigned kDirectAlignment = 0x2000;  // STATX_DIOALIGN
    Statx info{};
    if (::statx(descriptor, "", AT_EMPTY_PATH, kDirectAlignment, &info) == 0 &&
        (info.stx_mask & kDirectAlignment) != 0)
      return {.offset = info.stx_dio_offset_align, .memory = info.stx_dio_mem_align};
  }
  return {};
}

/// Under which a process finds an open file again.
std::string name_of(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

/// Once a file system. EINVAL: of what takes no direct transfers.
void say_once(const std::filesystem::path& path, dev_t device, int cause) {
  static std::mutex mutex;  // of what follows
  static std::set<dev_t> said;
  const std::lock_guard lock(mutex);
  if (!said.insert(device).second) return;
  say_fallback(fmt::format("{}: {}: the page cache is used", path.string(),
                           cause == EINVAL
                               ? "its file system has no direct transfers (O_DIRECT)"
                               : fmt::format("cannot open for direct transfers (O_DIRECT): {}",
                                             std::generic_category().message(cause))));
}

/// Of this process or system, whatever the file: others would fail as well.
bool is_shortage(int cause) {
  return cause == EMFILE || cause == ENFILE || cause == ENOMEM;
}

}  // namespace

DirectFile::DirectFile(std::filesystem::path path, int flags) : path_(std::move(path)) {
  buffered_ = ::open(path_.c_str(), flags | O_CLOEXEC, 0666);
  if (buffered_ < 0) fail_errno(path_.string() + ": cannot open", errno);
  struct stat info {};
  const int cause = ::fstat(buffered_, &info) == 0 ? 0 : errno;
  if (cause != 0 || !S_ISREG(info.st_mode)) {
    ::close(buffered_);
    if (cause != 0) fail_errno(path_.string() + ": cannot stat", cause);
    fail("{}: not a regular file; name one", path_.string());
  }
  size_ = info.st_size;
  device_ = info.st_dev;
  open_direct(flags & O_ACCMODE);
}

void DirectFile::open_direct(int flags) {
  const Alignment alignment = alignment_of<struct statx>(buffered_);
  int cause = EINVAL;
  if (alignment.offset > 0 && alignment.memory > 0) {
    // Not by its name, which another file may have by now.
    direct_ = ::open(name_of(buffered_).c_str(), flags | O_DIRECT | O_CLOEXEC);
    cause = errno;
  }
  if (direct_ < 0 && is_shortage(cause)) {
    ::close(buffered_);
    fail_errno(path_.string() + ": cannot open for direct transfers", cause);
  }
  if (direct_ < 0) return say_once(path_, device_, cause);
  alignment_ = whole_pages(alignment.offset, buffered_);
  memory_alignment_ = alignment.memory;
}

DirectFile DirectFile::create(const std::filesystem::path& path, Index bytes, Room room) {
  DirectFile file(path, O_RDWR | O_CREAT | O_TRUNC);
  file.set_size(bytes, room);
  return file;
}

void DirectFile::set_size(Index bytes, Room room) {
  require(bytes >= 0, "a file of no negative size");
  size_ = bytes;
  if (room == Room::kNone || !reserve(0, bytes)) truncate(bytes);
}

bool DirectFile::reserve(Index offset, Index bytes) const {
  if (bytes == 0) return true;
  // Not posix_fallocate(): where the file system cannot reserve, that writes every block.
  int status = 0;
  do status = ::fallocate(buffered_, 0, offset, bytes);
  while (status != 0 && errno == EINTR);
  if (status == 0) return true;
  if (errno != EOPNOTSUPP && errno != ENOSYS)
    fail_errno(path_.string() + ": cannot reserve its space", errno);
  return false;
}

DirectFile DirectFile::create_unlinked(const std::filesystem::path& folder, Index bytes) {
  DirectFile file(folder, O_RDWR | O_TMPFILE);
  file.set_size(bytes, Room::kAll);
  return file;
}

DirectFile DirectFile::create_nameless(const std::filesystem::path& target, Index bytes) {
  remove_leftovers(target);
  const std::filesystem::path path = random_name_beside(target);
  try {
    DirectFile file = create(path, bytes);
    std::filesystem::remove(path);
    return file;
  } catch (const std::exception&) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw;
  }
}

DirectFile DirectFile::open(const std::filesystem::path& path) {
  return {path, O_RDONLY};
}

DirectFile DirectFile::open_to_write(const std::filesystem::path& path) {
  // A network's file system need not fetch a page that is written to, and may be another's.
  return {path, O_WRONLY};
}

bool DirectFile::link(const std::filesystem::path& path) const {
  const std::string name = name_of(buffered_);
  if (::linkat(AT_FDCWD, name.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
  if (errno == EXDEV || errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK) return false;
  fail_errno(path.string() + ": cannot name a file of " + path_.string() + " so", errno);
}

void DirectFile::truncate(Index bytes) const {
  if (::ftruncate(buffered_, bytes) != 0)
    fail_errno(path_.string() + ": cannot set its size", errno);
}

DirectFile::DirectFile(DirectFile&& other) noexcept
    : path_(std::move(other.path_)),
      buffered_(std::exchange(other.buffered_, -1)),
      direct_(std::exchange(other.direct_, -1)),
      usable_(other.usable_.load()),
      size_(other.size_),
      alignment_(other.alignment_),
      memory_alignment_(other.memory_alignment_),
      device_(other.device_) {}

DirectFile::~DirectFile() {
  if (buffered_ >= 0) ::close(buffered_);
  if (direct_ >= 0) ::close(direct_);
}

std::filesystem::path DirectFile::mount_point() const {
  std::error_code error;
  std::filesystem::path place = std::filesystem::canonical(path_, error);
  if (error) place = path_;
  struct stat above {};
  do place = place.parent_path();
  while (place.has_relative_path() && ::stat(place.parent_path().c_str(), &above) == 0 &&
         above.st_dev == device_);
  return place;
}

const char* memory_file_system(const std::filesystem::path& path) {
  struct FileSystem {
    std::uint32_t magic;
    const char* name;
  };
  constexpr std::array kInMemory{FileSystem{TMPFS_MAGIC, "tmpfs"}, FileSystem{RAMFS_MAGIC, "ramfs"},
                                 FileSystem{HUGETLBFS_MAGIC, "hugetlbfs"}};
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return nullptr;
  const auto* found =
      std::ranges::find(kInMemory, static_cast<std::uint32_t>(info.f_type), &FileSystem::magic);
  return found == kInMemory.end() ? nullptr : found->name;
}

void DirectFile::give_up_direct() const {
  usable_ = false;
  say_once(path_, device_, EINVAL);
}

}  // namespace dos::storage
