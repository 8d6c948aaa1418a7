// SPDX-License-Identifier: Apache-2.0
#include <cblas.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "codelets/matrix/gemm_bf16.hpp"
#include "kernel_test.hpp"
#include "product_library.hpp"
#include "reference/bounded.hpp"

namespace dos::test::gemm_kernel_test {
namespace {

using codelets::MatrixView;

struct Shape {
  Index rows;
  Index columns;
  Index inner;
};
// Around the tiles of 512 x 512 and 512 x 1024 that are widened at a time.
constexpr Shape kShapes[] = {{1, 1, 1},      {1, 7, 5},      {3, 2, 1},
                             {17, 33, 9},    {64, 64, 64},   {511, 3, 513},
                             {2, 1025, 514}, {515, 4, 1030}, {513, 1027, 3}};

/// A matrix whose stored rows have a gap behind them.
template <class T>
struct Stored {
  Stored(Index rows, Index columns, bool is_transposed, std::uint64_t seed)
      : transposed(is_transposed),
        stride((transposed ? rows : columns) + 3),
        values(random_values((transposed ? columns : rows) * stride, seed)) {}

  [[nodiscard]] double at(Index row, Index column) const {
    const Index place = transposed ? column * stride + row : row * stride + column;
    return values[static_cast<std::size_t>(place)];
  }
  [[nodiscard]] MatrixView<T> view() const {
    return {values.elements(), stride, transposed ? CblasTrans : CblasNoTrans};
  }

  bool transposed;
  Index stride;
  Input<T> values;
};

template <class T>
using Multiply = void (*)(Index, Index, Index, MatrixView<T>, MatrixView<T>, bool, float*, Index);

// Of BF16 elements products are exact, of FP32 ones each rounds by half an eps; each of the
// additions, in whatever order, does, too. What stands behind the columns of c stays.
template <class T>
void check(Multiply<T> multiply, const Shape& s, bool a_transposed, bool b_transposed,
           bool accumulate) {
  SCOPED_TRACE(testing::Message() << s.rows << " x " << s.columns << " x " << s.inner << " "
                                  << a_transposed << b_transposed << accumulate);
  const Stored<T> a(s.rows, s.inner, a_transposed, 1);
  const Stored<T> b(s.inner, s.columns, b_transposed, 2);
  const Index c_stride = s.columns + 2;
  std::vector<float> before = random_values(s.rows * c_stride, 3);
  if (!accumulate) std::fill(before.begin(), before.end(), std::numeric_limits<float>::quiet_NaN());
  Guarded<float> c{std::span<const float>(before)};
  multiply(s.rows, s.columns, s.inner, a.view(), b.view(), accumulate, c.get(), c_stride);
  reference::Bounded expected(s.rows * s.columns);
  std::vector<float> got;
  for (Index row = 0; row < s.rows; ++row) {
    for (Index column = 0; column < c_stride; ++column) {
      const Index at = row * c_stride + column;
      const float old = before[static_cast<std::size_t>(at)];
      if (column >= s.columns) {
        EXPECT_TRUE(std::bit_cast<std::uint32_t>(c[at]) == std::bit_cast<std::uint32_t>(old));
        continue;
      }
      got.push_back(c[at]);
      const Index k = row * s.columns + column;
      if (accumulate) expected.add(k, old);
      for (Index i = 0; i < s.inner; ++i) expected.add(k, a.at(row, i) * b.at(i, column));
    }
  }
  constexpr int kRoundedProduct = std::is_same_v<T, float> ? 1 : 0;
  expect_close<float>(got, expected, static_cast<double>(s.inner + 1 + kRoundedProduct) / 2 * kEps);
}

template <class T>
void check_all(Multiply<T> multiply) {
  for (const Shape& s : kShapes)
    for (const int options : {0, 1, 2, 3, 4, 5, 6, 7})
      check<T>(multiply, s, (options & 1) != 0, (options & 2) != 0, (options & 4) != 0);
}

TEST(Bf16Product, MatchesTheReference) {
  check_all<BF16>(&codelets::multiply);
}

TEST(Bf16Product, MatchesTheReferenceWhereTheProcessorHasNoKernels) {
  check_all<BF16>(&codelets::multiply_widened);
}

/// The "Threads:" line of this process.
std::string thread_count() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.starts_with("Threads:")) return line;
  return "unknown";
}

// In a thread of its own, for which OpenMP has no others yet.
template <class T>
void expect_no_threads() {
  const Stored<T> a(600, 600, false, 1);
  std::vector<float> c(600 * 600);
  std::string before;
  std::string after;
  std::thread([&] {
    before = thread_count();
    codelets::multiply(600, 600, 600, a.view(), a.view(), false, c.data(), 600);
    after = thread_count();
  }).join();
  EXPECT_EQ(before, after);
  EXPECT_NE(before, "unknown");
}

template <class T>
void expect_the_same_bits_of_every_thread() {
  const Stored<T> a(70, 70, false, 1);
  const auto product = [&] {
    std::vector<float> c(70 * 70);
    codelets::multiply(70, 70, 70, a.view(), a.view(), false, c.data(), 70);
    return c;
  };
  const std::vector<float> here = product();
  std::vector<float> there;
  std::thread([&] { there = product(); }).join();
  EXPECT_EQ(here, there);
}

TEST(Bf16Product, StartsNoThreads) {
  expect_no_threads<BF16>();
}

TEST(Bf16Product, EveryThreadGivesTheSameBits) {
  expect_the_same_bits_of_every_thread<BF16>();
}

using Fp32Product = EachProductLibrary;
INSTANTIATE_TEST_SUITE_P(By, Fp32Product, testing::ValuesIn(product_libraries()), library_name);

TEST_P(Fp32Product, MatchesTheReference) {
  check_all<float>(&codelets::multiply);
}

TEST_P(Fp32Product, StartsNoThreads) {
  openblas_set_num_threads(1);
  expect_no_threads<float>();
}

TEST_P(Fp32Product, EveryThreadGivesTheSameBits) {
  expect_the_same_bits_of_every_thread<float>();
}

// A run that goes on elsewhere on this machine has its buffers at other addresses.
TEST_P(Fp32Product, AlignmentDoesNotMatter) {
  constexpr Shape kShape{203, 131, 77};
  const auto product = [&](bool a_transposed, bool b_transposed, Index shift) {
    const std::vector<float> values = random_values(kShape.rows * kShape.inner, 1);
    const std::vector<float> others = random_values(kShape.inner * kShape.columns, 2);
    Guarded<float> a{std::span<const float>(values), shift};
    Guarded<float> b{std::span<const float>(others), shift / 2};
    Guarded<float> c(kShape.rows * kShape.columns, 0, shift);
    codelets::multiply(kShape.rows, kShape.columns, kShape.inner,
                       MatrixView<float>{a.get(), a_transposed ? kShape.rows : kShape.inner,
                                         a_transposed ? CblasTrans : CblasNoTrans},
                       MatrixView<float>{b.get(), b_transposed ? kShape.inner : kShape.columns,
                                         b_transposed ? CblasTrans : CblasNoTrans},
                       false, c.get(), kShape.columns);
    return std::vector<float>(c.view().begin(), c.view().end());
  };
  for (const bool a_transposed : {false, true})
    for (const bool b_transposed : {false, true}) {
      const std::vector<float> expected = product(a_transposed, b_transposed, 0);
      for (const Index shift : {1, 3, 8, 13})
        EXPECT_EQ(product(a_transposed, b_transposed, shift), expected) << "shift " << shift;
    }
}

TEST(Fp32ProductChoice, IsSaidByName) {
  for (const char* name : {"auto", "openblas"}) EXPECT_NO_THROW(codelets::choose_products(name));
  EXPECT_EQ(codelets::fp32_products(), "OpenBLAS");
  EXPECT_THROW(codelets::choose_products("mkl"), Error);
  codelets::choose_products("auto");
  EXPECT_EQ(codelets::fp32_products() != "OpenBLAS", codelets::onednn_uses_avx512());
}

TEST(Fp32ProductChoice, NeedsTheLibrary) {
  if (codelets::has_onednn()) {
    codelets::choose_products("onednn");
    EXPECT_EQ(codelets::fp32_products(), codelets::onednn_description());
  } else {
    EXPECT_THROW(codelets::choose_products("onednn"), Error);
  }
  codelets::choose_products("auto");
}

}  // namespace
}  // namespace dos::test::gemm_kernel_test
