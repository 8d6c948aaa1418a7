// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>

namespace dos::test {

/// Lines of text whose words share their parts, as words of a language do: a trainer finds pieces
/// only in what different words have in common.
inline std::string corpus(unsigned lines = 400) {
  constexpr std::array kStarts{"over", "under", "quick", "br\xC3\xBCn", "lazy", "inter", "counter"};
  constexpr std::array kStems{"fox", "jump", "work", "light", "stand", "play", "n\xC3\xA9ral"};
  constexpr std::array kEnds{"", "s", "ing", "ed", "able", "ment"};
  const auto word = [&](unsigned i) {
    return fmt::format("{}{}{}", kStarts[i % 7], kStems[i / 7 % 7], kEnds[i / 49 % 6]);
  };
  std::string text;
  for (unsigned i = 0; i < lines; ++i) {
    text += fmt::format("{}: the {} and  {}, {} of {}\n", i, word(i), word(i * 31), word(i * 101),
                        i * 7919 % 1000);
  }
  return text;
}

}  // namespace dos::test
