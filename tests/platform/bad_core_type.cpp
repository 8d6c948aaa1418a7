// SPDX-License-Identifier: Apache-2.0
// Takes the place of OpenBLAS's function: the kernels of a processor that OpenBLAS does not know,
// and the ones asked for once OPENBLAS_CORETYPE is set.
#include <cblas.h>

#include <cstdlib>

extern "C" char* openblas_get_corename() {
  static char unknown_processor[] = "Haswell";
  char* wanted = std::getenv("OPENBLAS_CORETYPE");
  return wanted == nullptr ? unknown_processor : wanted;
}
