// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace dos {

/// Closes a descriptor when the scope ends: for the ways out that throw.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

 private:
  int descriptor_;
};

/// fsync(), however many signals come. 0, or the cause.
int flush(int descriptor);

/// "metrics.jsonl.0123456789abcdef.tmp": a name that nobody can have put a file or a link under.
std::filesystem::path random_name_beside(const std::filesystem::path& target);

/// Removes the temporaries of `target`, files and folders, that killed processes left: those that
/// no living process has locked. Where files cannot be locked they stay.
void remove_leftovers(const std::filesystem::path& target);

/// Locks a temporary that was just made. False when another process took it for a leftover.
bool keep_temporary(int descriptor);

}  // namespace dos
