// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "codelets/matrix/onednn.hpp"

namespace dos::codelets {

bool has_onednn() {
  return false;
}

bool onednn_uses_avx512() {
  return false;
}

bool onednn_multiplies_bf16() {
  return false;
}

void multiply_by_onednn(Index /*rows*/, Index /*columns*/, Index /*inner*/, MatrixView<float> /*a*/,
                        MatrixView<float> /*b*/, bool /*accumulate*/, float* /*c*/,
                        Index /*c_stride*/) {
  require(false, "a build with oneDNN");
}

void multiply_by_onednn(Index /*rows*/, Index /*columns*/, Index /*inner*/, MatrixView<BF16> /*a*/,
                        MatrixView<BF16> /*b*/, bool /*accumulate*/, float* /*c*/,
                        Index /*c_stride*/) {
  require(false, "a build with oneDNN");
}

std::string onednn_description() {
  return "no oneDNN";
}

}  // namespace dos::codelets
