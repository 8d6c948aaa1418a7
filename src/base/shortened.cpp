// SPDX-License-Identifier: Apache-2.0
#include "base/shortened.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dos {

std::string shortened(std::string_view message) {
  constexpr std::size_t kLongest = 4096;  // of a path, on Linux
  constexpr std::size_t kKept = 60;
  const auto is_inside = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
  };
  std::string text;
  while (!message.empty()) {
    const std::size_t word = std::min(message.find_first_of(" \n"), message.size());
    std::size_t kept = word;
    if (word > kLongest) {
      kept = kKept;
      while (kept > 0 && is_inside(message[kept])) --kept;
    }
    text += message.substr(0, kept);
    if (kept < word) text += fmt::format("... ({} bytes)", word);
    const std::size_t next = std::min(word + 1, message.size());
    text += message.substr(word, next - word);
    message.remove_prefix(next);
  }
  return text;
}

}  // namespace dos
