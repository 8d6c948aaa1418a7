// SPDX-License-Identifier: Apache-2.0
// Prints OpenBLAS's kernel family and its own arguments, one a line; before
// that it lets the family be mended, unless its first argument is "as-is".
#include <cstdio>
#include <string_view>

#include "platform/blas.hpp"

int main(int argc, char** argv) {
  const bool mend = argc < 2 || std::string_view(argv[1]) != "as-is";
  if (mend) dos::platform::blas::restart_with_better_kernels(argv);
  std::printf("%s\n", dos::platform::blas::core_type().c_str());
  for (int i = 1; i < argc; ++i) std::printf("%s\n", argv[i]);
  return 0;
}
