// SPDX-License-Identifier: Apache-2.0
// What libFuzzer and corpus_main.cpp call.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "fuzz/target.hpp"

void dos::test::broken(const char* promise) {
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

bool dos::test::accepts(std::span<const std::byte> bytes) {
  try {
    fuzz(bytes);
    return true;
  } catch (const Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos)
      broken("a message of one line");
    return false;
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dos::test::accepts(std::as_bytes(std::span(data, size)));
  return 0;
}
