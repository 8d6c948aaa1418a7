// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include "base/log.hpp"

namespace dos::io {

// The moves of folders and links that a CheckpointStore (checkpoint_directory.hpp) is made of. Each
// throws Error naming path and cause.

/// Gives a folder another name in the same folder. The caller flushes that.
void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to);

/// A second name for every file of `from`, or a second copy where the file system has no hard
/// links, flushed to the device.
void duplicate(const std::filesystem::path& from, const std::filesystem::path& to);

/// What a link points to; nullopt where there is none, or something else.
std::optional<std::string> link_target(const std::filesystem::path& link);

/// Lets a link, there or not, point to `target`, and flushes its folder.
void point_link(const std::filesystem::path& link, const std::string& target);

/// Removes a link, and flushes its folder.
void remove_link(const std::filesystem::path& link);

/// Does what may be left for another time.
template <class Work>
void warn_of(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    log::warn("{}", error.what());
  }
}

}  // namespace dos::io
