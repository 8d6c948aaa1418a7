// SPDX-License-Identifier: Apache-2.0
#include "io/discarded_folders.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "io/checkpoint_folders.hpp"
#include "io/checkpoint_moves.hpp"

namespace dos::io {

namespace fs = std::filesystem;

namespace {

/// Whether nobody else has the file open, or mapped: then a lease for writing is given.
bool is_leased(int descriptor) {
  // Whoever opens it in between has a signal sent: by default one that ends the program.
  if (::fcntl(descriptor, F_SETSIG, SIGURG) != 0) return false;
  return ::fcntl(descriptor, F_SETLEASE, F_WRLCK) == 0 &&
         ::fcntl(descriptor, F_SETLEASE, F_UNLCK) == 0;
}

/// Takes the file out of the page cache; whether nothing of it is left there. Of pages of several
/// kilobytes that are, a part may be written through the cache while another goes past it, which
/// the kernel tells as an error when the file is flushed.
bool leaves_cache(int descriptor, std::size_t bytes) {
  if (bytes == 0) return true;
  if (::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) != 0) return false;
  void* const data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return false;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::array<unsigned char, 4096> pages{};
  bool is_left = false;
  for (std::size_t at = 0; at < bytes && !is_left; at += pages.size() * page) {
    const std::size_t count = std::min(bytes - at, pages.size() * page);
    is_left = ::mincore(static_cast<std::byte*>(data) + at, count, pages.data()) != 0 ||
              std::any_of(pages.begin(), pages.begin() + (count - 1) / page + 1,
                          [](unsigned char is_there) { return (is_there & 1U) != 0; });
  }
  ::munmap(data, bytes);
  return !is_left;
}

/// Whether a file can be written over: it has so many bytes, no other name, and no other user.
bool is_alone(const fs::path& path, Index bytes) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct stat info {};
  const bool is = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1 &&
                  info.st_size == bytes && is_leased(descriptor) &&
                  leaves_cache(descriptor, static_cast<std::size_t>(bytes));
  ::close(descriptor);
  return is;
}

}  // namespace

void DiscardedFolders::take(const fs::path& folder) {
  const std::lock_guard lock(mutex_);
  const auto name_of = [&](const std::string& number) {
    return folder.filename().string() + ".discarded" + number + std::string(kStagingSuffix);
  };
  std::string name = name_of("");
  // One of the same step may still be on its way.
  for (Index number = 2; names_.contains(name); ++number)
    name = name_of(fmt::format("-{}", number));
  waiting_.push_back({.path = folder.parent_path() / name, .user = {}, .is_over = false});
  try {
    rename_folder(folder, waiting_.back().path);
  } catch (...) {
    waiting_.pop_back();
    throw;
  }
  names_.insert(std::move(name));
}

bool DiscardedFolders::has(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return names_.contains(name);
}

bool DiscardedFolders::reuse(const fs::path& path, Index bytes) {
  const std::lock_guard lock(mutex_);
  const fs::path user = path.parent_path();
  for (Folder& folder : waiting_) {
    if (folder.is_over || (!folder.user.empty() && folder.user != user)) continue;
    const fs::path spare = folder.path / path.filename();
    std::error_code cause;
    if (!fs::exists(fs::symlink_status(spare, cause))) continue;
    // On the device, too, the checkpoint has lost its name before its bytes are written over.
    sync_directory(folder.path.parent_path());
    folder.user = user;
    fs::rename(spare, path, cause);
    if (cause) continue;
    // Only now: who has the folder open could have found it under the old name.
    if (is_alone(path, bytes)) return true;
    // Its room is for the new one, as soon as nobody has it any more.
    fs::remove(path, cause);
    expect(!cause, "{}: cannot be removed: {}; remove it by hand", path.string(), cause.message());
  }
  return false;
}

void DiscardedFolders::end_of(const fs::path& user) {
  const std::lock_guard lock(mutex_);
  for (Folder& folder : waiting_) folder.is_over |= folder.user == user;
}

void DiscardedFolders::remove(std::size_t spares) noexcept {
  std::unique_lock lock(mutex_);
  for (auto folder = waiting_.rbegin(); folder != waiting_.rend(); ++folder) {
    if (!folder->user.empty()) continue;
    if (spares == 0)
      folder->is_over = true;
    else
      --spares;
  }
  while (true) {
    const auto over = std::ranges::find_if(waiting_, &Folder::is_over);
    if (over == waiting_.end()) return;
    const fs::path folder = std::move(over->path);
    waiting_.erase(over);
    lock.unlock();
    std::error_code cause;
    fs::remove_all(folder, cause);
    if (cause)
      log::warn("{}: cannot remove: {}; remove it by hand", folder.string(), cause.message());
    lock.lock();
    names_.erase(folder.filename().string());
  }
}

}  // namespace dos::io
