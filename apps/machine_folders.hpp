// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/data_folder.hpp"
#include "base/error.hpp"

namespace dos::apps {

/// The machine files that come with the programs.
inline std::filesystem::path machine_folder() {
  return data_folder() / "machines";
}

/// Where a user keeps machine files when those of the programs belong to somebody else; empty
/// without a home.
inline std::filesystem::path user_machine_folder() {
  const auto below = [](const std::filesystem::path& data) {
    return data / "deep-optimizer-states" / "machines";
  };
  const char* data = std::getenv("XDG_DATA_HOME");
  // What is not absolute does not count, says the XDG base directory specification.
  if (data != nullptr && data[0] == '/') return below(data);
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return {};
  return below(std::filesystem::path(home) / ".local" / "share");
}

/// The folder that gets the file of this machine: that of the programs where this user may write
/// to it, the user's otherwise.
inline std::filesystem::path folder_to_write() {
  const std::filesystem::path shared = machine_folder();
  if (::access(shared.c_str(), W_OK) == 0) return shared;
  const std::filesystem::path mine = user_machine_folder();
  return mine.empty() ? shared : mine;
}

/// The folder in which "this" is found: where calibrate writes it, or the other one if only that
/// has a file of `host`.
inline std::filesystem::path folder_with(const std::string& host) {
  const std::filesystem::path first = folder_to_write();
  for (const std::filesystem::path& folder : {first, machine_folder(), user_machine_folder()}) {
    std::error_code ignored;
    if (!folder.empty() && std::filesystem::is_regular_file(folder / (host + ".toml"), ignored))
      return folder;
  }
  return first;
}

/// Makes the folder that folder_to_write() has named. Throws Error naming the remedy.
inline void make_folder_to_write(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail("folder {} for the file of this machine cannot be made: {}; name a file with --output",
         folder.string(), error.message());
}

}  // namespace dos::apps
