// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target on the files of a folder, and on each of them cut short at up to 256 places:
// what needs no libFuzzer. A target that takes none of them as it is tries nothing.
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>

#include "base/file.hpp"
#include "fuzz/target.hpp"

int main(int argc, char** argv) {
  int inputs = 0;
  int accepted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argc > 1 ? argv[1] : ".")) {
    const std::string text = dos::read_text(entry.path());
    const std::size_t step = text.size() / 256 + 1;
    for (std::size_t left = 0; left <= text.size(); left += step) {
      const bool takes =
          dos::test::accepts(std::as_bytes(std::span(text).first(text.size() - left)));
      if (left == 0 && takes) ++accepted;
    }
    ++inputs;
  }
  std::printf("%d inputs, of which %d are accepted\n", inputs, accepted);
  return accepted > 0 ? 0 : 1;
}
