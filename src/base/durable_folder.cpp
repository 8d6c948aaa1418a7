// SPDX-License-Identifier: Apache-2.0
#include "base/durable_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/temporary.hpp"

namespace dos {
namespace {

namespace fs = std::filesystem;

void sync_file(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_errno(path.string() + ": cannot open", errno);
  const Descriptor guard(descriptor);
  const int cause = flush(descriptor);
  if (cause != 0) fail_errno(path.string() + ": cannot flush", cause);
}

fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

/// rename() that replaces nothing, not even an empty folder, where the file system can do that.
int rename_to_free(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

std::error_code create_directories_durably(const fs::path& folder) {
  std::error_code cause;
  std::vector<fs::path> made;
  for (fs::path each = without_slash(folder); !each.empty() && !fs::exists(each, cause);
       each = each.parent_path())
    made.push_back(each);
  fs::create_directories(folder, cause);
  for (std::size_t i = 0; i < made.size() && !cause; ++i) {
    const fs::path above = made[i].has_parent_path() ? made[i].parent_path() : fs::path(".");
    const int descriptor = ::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return {errno, std::generic_category()};
    const Descriptor guard(descriptor);
    cause = {flush(descriptor), std::generic_category()};
  }
  return cause;
}

void sync_tree(const fs::path& folder) {
  std::error_code cause;
  for (fs::directory_iterator entry(folder, cause), end; !cause && entry != end;
       entry.increment(cause)) {
    const fs::file_type type = entry->symlink_status(cause).type();
    if (cause) break;
    if (type == fs::file_type::directory) sync_tree(entry->path());
    if (type == fs::file_type::regular) sync_file(entry->path());
  }
  expect(!cause, "{}: cannot list the folder: {}", folder.string(), cause.message());
  sync_directory(folder);
}

DurableFolder::DurableFolder(const fs::path& path) : path_(without_slash(path)) {
  expect_free();
  remove_leftovers(path_);
  do {
    if (descriptor_ >= 0) ::close(descriptor_);
    temporary_ = random_name_beside(path_);
    if (::mkdir(temporary_.c_str(), 0755) != 0)
      fail_errno(path_.string() + ": cannot create", errno);
    descriptor_ = ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  } while (descriptor_ < 0 || !keep_temporary(descriptor_));
}

DurableFolder::~DurableFolder() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void DurableFolder::expect_free() const {
  std::error_code ignored;
  expect(!fs::exists(fs::symlink_status(path_, ignored)),
         "{}: is there already, and nothing is replaced: name another, or remove it",
         path_.string());
}

void DurableFolder::commit() {
  sync_tree(temporary_);
  const int cause = rename_to_free(temporary_, path_);
  if (cause == EEXIST || cause == ENOTEMPTY) expect_free();
  if (cause != 0) fail_errno(path_.string() + ": cannot put in place", cause);
  ::close(std::exchange(descriptor_, -1));
  sync_directory(path_.has_parent_path() ? path_.parent_path() : ".");
}

}  // namespace dos
