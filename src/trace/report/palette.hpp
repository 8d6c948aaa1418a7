// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dos::trace {

/// What a colour of the report stands for. Families also differ by their texture: what ran is
/// plain, what was waited for is striped, what lies in memory or travels is ruled.
enum class ColorFamily { kRun, kWait, kMemory };

struct Colour {
  ColorFamily family;
  std::string_view name;
  const char* value;  ///< "#rrggbb"
};

/// One colour a meaning: Okabe's and Ito's palette for phases, colours of Paul Tol's for the rest,
/// chosen so that any two differ for people with and without a red-green deficiency
/// (tests/trace/palette_test.cpp).
std::span<const Colour> palette();

/// Of the family's member, as a value of SVG's `fill`; grey for a name that is none.
std::string fill_of(ColorFamily family, std::string_view name);

/// What durations and rates without a phase are drawn in.
inline constexpr const char* kNeutral = "#1A1A1A";
/// Behind every plot: where nothing is drawn nothing happened.
inline constexpr const char* kBackground = "#EEF0F2";

/// The textures, once a page, before what is drawn with them.
std::string pattern_definitions();

/// A square, as HTML: the key of what is filled so.
std::string key_square(std::string_view fill);

/// Squares with names, of those that `appear`; "" if none does.
std::string legend(ColorFamily family, const std::vector<std::string>& appear);

}  // namespace dos::trace
