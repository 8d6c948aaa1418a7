// SPDX-License-Identifier: Apache-2.0
#include "codelets/matrix/products.hpp"

#include <cblas.h>
#include <fmt/format.h>

#include <atomic>

#include "base/error.hpp"
#include "codelets/matrix/gemm.hpp"
#include "codelets/matrix/onednn.hpp"

namespace dos::codelets {
namespace {

std::atomic<ProductChoice> chosen{ProductChoice::kAuto};

bool runs_on_amd() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

/// A weight's gradient is the product whose left factor is transposed: dy^T x.
bool onednn_multiplies(bool is_weight_gradient) {
  switch (chosen.load(std::memory_order_relaxed)) {
    case ProductChoice::kOpenBlas:
      return false;
    case ProductChoice::kOneDnn:
      return true;
    case ProductChoice::kAuto:
      break;
  }
  static const bool is_amd = runs_on_amd();
  return onednn_uses_avx512() && (is_amd || !is_weight_gradient);
}

}  // namespace

void choose_products(ProductChoice choice) {
  expect(
      choice != ProductChoice::kOneDnn || has_onednn(),
      "train.products=onednn: this program was built without oneDNN: choose auto or openblas, or "
      "build with -DDOS_ONEDNN=ON");
  chosen = choice;
}

void choose_products(const std::string& name) {
  if (name == "auto") return choose_products(ProductChoice::kAuto);
  if (name == "openblas") return choose_products(ProductChoice::kOpenBlas);
  expect(name == "onednn", "products by '{}': must be auto, openblas or onednn", name);
  choose_products(ProductChoice::kOneDnn);
}

std::string fp32_products() {
  if (!onednn_multiplies(false)) return "OpenBLAS";
  return onednn_multiplies(true)
             ? onednn_description()
             : fmt::format("{}, weight gradients OpenBLAS", onednn_description());
}

void multiply(Index rows, Index columns, Index inner, MatrixView<float> a, MatrixView<float> b,
              bool accumulate, float* c, Index c_stride) {
  if (onednn_multiplies(a.transpose == CblasTrans))
    multiply_by_onednn(rows, columns, inner, a, b, accumulate, c, c_stride);
  else
    cblas_sgemm(CblasRowMajor, a.transpose, b.transpose, static_cast<blasint>(rows),
                static_cast<blasint>(columns), static_cast<blasint>(inner), 1.0F, a.elements,
                static_cast<blasint>(a.stride), b.elements, static_cast<blasint>(b.stride),
                accumulate ? 1.0F : 0.0F, c, static_cast<blasint>(c_stride));
}

}  // namespace dos::codelets
