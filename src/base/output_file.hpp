// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace dos {

/// For a file that a user names and a program writes whole. Throws Error when there is one already
/// that is not empty and does not begin with `mark`, as all files of its kind do: somebody may have
/// named an input, or another file that is worth something. Nothing is said of what DurableFile
/// refuses.
void expect_replaceable(const std::filesystem::path& path, std::string_view mark);

/// Writes `text` durably to `path`, which is to be replaceable. Pre: it begins with `mark`.
void write_replaceable(const std::filesystem::path& path, std::string_view text,
                       std::string_view mark);

}  // namespace dos
