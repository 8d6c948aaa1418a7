// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dos {

/// The candidate with the smallest edit distance (Levenshtein) to `name`, or "" when none is within
/// half of the longer length: "did you mean" in error messages.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

/// " (did you mean 'x'?)" for the nearest candidate, or "".
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace dos
