// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace dos::data {

/// The files STEM_000001.bin, STEM_000002.bin, ..., as llm.c numbers those of a large corpus (from
/// 0 or any other number on, six digits), in the order of their numbers; none where there are none.
/// Throws Error for a number that is missing between two others.
std::vector<std::filesystem::path> find_shards(const std::filesystem::path& stem);

}  // namespace dos::data
