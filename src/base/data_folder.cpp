// SPDX-License-Identifier: Apache-2.0
#include "base/data_folder.hpp"

#include <system_error>

#include "base/error.hpp"

namespace dos {

std::filesystem::path data_folder_of(const std::filesystem::path& executable) {
  return std::filesystem::weakly_canonical(executable.parent_path() / ".." / "share" /
                                           "deep-optimizer-states");
}

std::filesystem::path data_folder() {
  // The kernel has followed every link to the program.
  constexpr const char* kSelf = "/proc/self/exe";
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink(kSelf, error);
  if (error)
    fail("{}: cannot be read ({}), so this program does not find its own files: mount /proc", kSelf,
         error.message());
  return data_folder_of(self);
}

}  // namespace dos
