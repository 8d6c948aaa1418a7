// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/matrix/gemm.hpp"

namespace dos::codelets {

/// Whether this build has oneDNN (cmake/DosDependencies.cmake).
bool has_onednn();

/// Whether it is there and multiplies FP32 matrices by AVX-512 here.
bool onednn_uses_avx512();

/// Whether it is there and has BF16 products for this processor: version 2.6 has them from AVX-512
/// on.
bool onednn_multiplies_bf16();

/// multiply() by oneDNN, on the calling thread alone. Pre: it is there, and for BF16 it can.
void multiply_by_onednn(Index rows, Index columns, Index inner, MatrixView<float> a,
                        MatrixView<float> b, bool accumulate, float* c, Index c_stride);
void multiply_by_onednn(Index rows, Index columns, Index inner, MatrixView<BF16> a,
                        MatrixView<BF16> b, bool accumulate, float* c, Index c_stride);

/// "oneDNN 2.6.3 (ISA 0xfef)": version and instruction set, as dnnl_cpu_isa_t numbers it.
std::string onednn_description();

/// What multiply() of BF16 matrices runs here, for the record of a run: oneDNN's version and the
/// instruction set that it found, or that OpenBLAS computes in FP32.
std::string bf16_products();

}  // namespace dos::codelets
