// SPDX-License-Identifier: Apache-2.0
// What cuBLAS is given for the logits of GPT-2's vocabulary, which is odd.
#include "codelets/cuda_test.hpp"
#include "codelets/linear/linear.hpp"
#include "codelets/products_on_host.hpp"
#include "shape/activation_sets.hpp"

namespace dos::test::logits_on_host_test {
namespace {

using namespace codelets;

constexpr Index kTokens = 3;
constexpr Index kWidth = 16;
constexpr Index kVocabulary = 50257;

/// Forward and backward in BF16, of a table in blocks of so many rows.
Index alignment_of_logits(Index rows_per_block, Index stride) {
  const RowBlocking blocking{kVocabulary, kWidth, rows_per_block};
  const OnGpu table(Elements(DType::kBF16, kVocabulary * kWidth));
  const OnGpu x(Elements(DType::kBF16, kTokens * kWidth));
  const OnGpu logits(Elements(DType::kBF16, kTokens * stride));
  const OnGpu gradient(Elements(DType::kF32, rows_per_block * kWidth));
  std::vector<const void*> blocks;
  for (Index b = 0; b < blocking.count(); ++b)
    blocks.push_back(table.as<BF16>() + blocking.first_row(b) * kWidth);
  const RowBlocks<const void> w{blocking, blocks.data()};
  take_alignment_of_products();
  expect_done(linear_forward_cuda(cuda_context(), DType::kBF16, kTokens, x.get(), w, nullptr,
                                  nullptr, logits.get(), stride));
  expect_done(linear_backward_data_cuda(cuda_context(), DType::kBF16, kTokens, logits.get(), stride,
                                        w, x.get()));
  for (Index b = 0; b < blocking.count(); ++b)
    expect_done(linear_backward_weight_cuda(
        cuda_context(), DType::kBF16, DType::kF32,
        {kTokens, kWidth, stride, blocking.first_row(b), blocking.rows_of(b), kWidth}, logits.get(),
        x.get(), false, gradient.get()));
  return take_alignment_of_products();
}

// Blocks of whole multiples of 8 rows: tests/shape/cutter_test.cpp.
TEST_F(CudaKernel, ProductsOfAnOddVocabularyAreAlignedTo16Bytes) {
  EXPECT_GE(alignment_of_logits(6288, shape::logits_stride(kVocabulary)), 16);
  EXPECT_EQ(alignment_of_logits(6283, shape::logits_stride(kVocabulary)), 2);
  EXPECT_EQ(alignment_of_logits(6288, kVocabulary), 2);
}

}  // namespace
}  // namespace dos::test::logits_on_host_test
