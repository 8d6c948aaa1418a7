// SPDX-License-Identifier: Apache-2.0
#include "io/discarded_folders.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/mapped_file.hpp"
#include "io/checkpoint_folders.hpp"
#include "io/checkpoint_moves.hpp"

namespace dos::io {

namespace fs = std::filesystem;

namespace {

/// Whether this descriptor is the only way to the file: a lease for writing is given where nobody
/// else has it open, or mapped.
bool is_alone(int descriptor, Index bytes) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 1 ||
      info.st_size != bytes)
    return false;
  // Whoever opens it in between has a signal sent: by default one that ends the program.
  if (::fcntl(descriptor, F_SETSIG, SIGURG) != 0) return false;
  return ::fcntl(descriptor, F_SETLEASE, F_WRLCK) == 0 &&
         ::fcntl(descriptor, F_SETLEASE, F_UNLCK) == 0;
}

/// Takes the file out of the page cache; whether nothing of it is left there. Of pages of several
/// kilobytes that are, a part may be written through the cache while another goes past it, which
/// the kernel tells as an error when the file is flushed.
bool leaves_cache(int descriptor, const fs::path& path) {
  if (::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) != 0) return false;
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.empty()) return true;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes.size() - 1) / page + 1);
  // The kernel wants an address that may be written; it writes to `pages` only.
  if (::mincore(const_cast<std::byte*>(bytes.data()), bytes.size(), pages.data()) != 0)
    return false;
  return std::ranges::none_of(pages, [](unsigned char is_there) { return (is_there & 1U) != 0; });
}

bool is_spare(const fs::path& path, Index bytes) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool is = is_alone(descriptor, bytes) && leaves_cache(descriptor, path);
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
  waiting_.push_back({.path = folder.parent_path() / name, .is_used = false});
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
  for (Folder& folder : waiting_) {
    const fs::path spare = folder.path / path.filename();
    if (!is_spare(spare, bytes)) continue;
    // On the device, too, the checkpoint has lost its name before its bytes are written over.
    if (!folder.is_used) sync_directory(folder.path.parent_path());
    folder.is_used = true;
    std::error_code cause;
    fs::rename(spare, path, cause);
    expect(!cause, "{}: cannot become {}: {}", spare.string(), path.string(), cause.message());
    return true;
  }
  return false;
}

void DiscardedFolders::remove(std::size_t spares) noexcept {
  std::unique_lock lock(mutex_);
  std::vector<Folder> going;
  std::vector<Folder> staying;
  while (!waiting_.empty()) {
    const bool stays = !waiting_.back().is_used && staying.size() < spares;
    (stays ? staying : going).push_back(std::move(waiting_.back()));
    waiting_.pop_back();
  }
  waiting_.assign(std::make_move_iterator(staying.rbegin()),
                  std::make_move_iterator(staying.rend()));
  for (const Folder& folder : going) {
    lock.unlock();
    std::error_code cause;
    fs::remove_all(folder.path, cause);
    if (cause)
      log::warn("{}: cannot remove: {}; remove it by hand", folder.path.string(), cause.message());
    lock.lock();
    names_.erase(folder.path.filename().string());
  }
}

}  // namespace dos::io
