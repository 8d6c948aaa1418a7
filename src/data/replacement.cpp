// SPDX-License-Identifier: Apache-2.0
#include "data/replacement.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/error.hpp"
#include "base/temporary.hpp"

namespace dos::data {

Replacement::~Replacement() {
  for (auto place = places_.rbegin(); place != places_.rend(); ++place) {
    if (place->former.empty()) {
      ::unlink(place->path.c_str());
      continue;
    }
    ::rename(place->former.c_str(), place->path.c_str());
    // Two names of one file are left as they are.
    ::unlink(place->former.c_str());
  }
}

void Replacement::set_aside(const std::filesystem::path& path, bool may_stay) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, ignored);
  // What would replace it fails with better words.
  if (std::filesystem::is_directory(status)) return;
  if (!std::filesystem::exists(status)) {
    places_.push_back({.path = path, .former = {}});
    return;
  }
  Place place{.path = path, .former = random_name_beside(path)};
  // Where the file system has no second names, the first is gone for a moment.
  const bool stays = may_stay && ::link(path.c_str(), place.former.c_str()) == 0;
  if (!stays && ::rename(path.c_str(), place.former.c_str()) != 0)
    fail_errno(path.string() + ": cannot replace", errno);
  places_.push_back(std::move(place));
}

void Replacement::keep() {
  for (const Place& place : places_)
    if (!place.former.empty()) ::unlink(place.former.c_str());
  places_.clear();
}

}  // namespace dos::data
