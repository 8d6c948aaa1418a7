// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "watch/run_view.hpp"

namespace dos::watch {

inline constexpr Index kLeastColumns = 20;

/// The text in lines of at most `columns` characters, broken between words where that can be; the
/// first line begins with `first`, the others with `indent`.
std::vector<std::string> wrapped(std::string_view text, Index columns, std::string_view first,
                                 std::string_view indent);

/// A line of at most `columns` characters: means of equal parts of the values, the highest at the
/// top; a part without a finite one is a space. `plain`: of ASCII.
std::string curve(std::span<const double> values, Index columns, bool plain);

/// The run as lines of at most `columns` characters. Pre: kLeastColumns at least.
std::vector<std::string> picture(const RunView& run, Index columns, bool plain);

}  // namespace dos::watch
