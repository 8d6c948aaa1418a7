// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target.hpp"
#include "io/tensor_folder.hpp"

/// Any text is refused in one line, or names files of the folder alone.
void dos::test::fuzz(std::span<const std::byte> bytes) {
  for (const auto& [tensor, file] : io::parse_index(text_of(bytes), "index.json"))
    if (file.empty() || file == ".." || file.find('/') != std::string::npos)
      broken("a file outside of the folder");
}
