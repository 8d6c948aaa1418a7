// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_moves.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/durable_folder.hpp"
#include "base/error.hpp"
#include "base/file.hpp"

namespace dos::io {

namespace fs = std::filesystem;

namespace {

std::error_code copy_tree(const fs::path& from, const fs::path& to, fs::copy_options how) {
  try {
    std::error_code cause;
    fs::copy(from, to, fs::copy_options::recursive | how, cause);
    return cause;
  } catch (const fs::filesystem_error& error) {
    // Of a folder that cannot be listed to its end.
    return error.code();
  }
}

}  // namespace

void rename_folder(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail_errno(fmt::format("{}: cannot rename to '{}', check that the folder is writable",
                           from.string(), to.filename().string()),
               errno);
}

void duplicate(const fs::path& from, const fs::path& to) {
  std::error_code cause = copy_tree(from, to, fs::copy_options::create_hard_links);
  if (cause) {
    std::error_code ignored;
    fs::remove_all(to, ignored);
    cause = copy_tree(from, to, fs::copy_options::none);
  }
  expect(!cause, "{}: cannot copy to '{}': {}; free space or choose another --out", from.string(),
         to.filename().string(), cause.message());
  sync_tree(to);
}

std::optional<std::string> link_target(const fs::path& link) {
  std::error_code cause;
  fs::path target = fs::read_symlink(link, cause);
  if (!cause) return target.string();
  expect(cause == std::errc::no_such_file_or_directory || cause == std::errc::invalid_argument ||
             cause == std::errc::not_a_directory,
         "{}: cannot read: {}; check the folder's permissions", link.string(), cause.message());
  return std::nullopt;
}

void point_link(const fs::path& link, const std::string& target) {
  const fs::path temporary = link.string() + ".tmp";
  std::error_code ignored;
  fs::remove(temporary, ignored);
  const bool is_made = ::symlink(target.c_str(), temporary.c_str()) == 0 &&
                       ::rename(temporary.c_str(), link.c_str()) == 0;
  const int cause = errno;
  if (!is_made) {
    fs::remove(temporary, ignored);
    fail_errno(fmt::format("{}: cannot let the link point to '{}', check that the folder is "
                           "writable and '{}' is no folder",
                           link.string(), target, link.filename().string()),
               cause);
  }
  sync_directory(link.parent_path());
}

void remove_link(const fs::path& link) {
  std::error_code cause;
  fs::remove(link, cause);
  expect(!cause, "{}: cannot remove: {}; make its folder writable", link.string(), cause.message());
  sync_directory(link.parent_path());
}

}  // namespace dos::io
