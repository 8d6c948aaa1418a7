// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dos::codelets {

/// Which library multiplies FP32 matrices (multiply() of gemm.hpp). kAuto: by a rule of instruction
/// set and shape, so that a machine always chooses alike (docs/adr/0053-fp32-products-by-rule.md).
enum class ProductChoice { kAuto, kOpenBlas, kOneDnn };

/// For all threads, from here on; kAuto before the first call. Call while no product runs: the
/// libraries round differently. Throws Error for kOneDnn in a build without it.
void choose_products(ProductChoice choice);

/// The same by name: "auto", "openblas" or "onednn". Throws Error for any other.
void choose_products(const std::string& name);

/// What multiplies FP32 matrices, for the record of a run: "oneDNN 2.6.3 (ISA 0x1ef), weight
/// gradients OpenBLAS" say.
std::string fp32_products();

}  // namespace dos::codelets
