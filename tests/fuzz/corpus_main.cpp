// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target on the files of a folder, and on each of them cut short at up to 256 places:
// what needs no libFuzzer.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "base/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argc > 1 ? argv[1] : ".")) {
    const std::string text = dos::read_text(entry.path());
    const std::size_t step = text.size() / 256 + 1;
    for (std::size_t left = 0; left <= text.size(); left += step) {
      const std::string part = text.substr(0, text.size() - left);
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(part.data()), part.size());
    }
    ++inputs;
  }
  std::printf("%d inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}
