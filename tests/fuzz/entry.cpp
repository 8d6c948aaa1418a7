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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    dos::test::fuzz(std::as_bytes(std::span(data, size)));
  } catch (const dos::Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos)
      dos::test::broken("a message of one line");
  }
  return 0;
}
