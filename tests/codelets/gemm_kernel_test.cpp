// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include "codelets/matrix/gemm_bf16.hpp"
#include "kernel_test.hpp"
#include "reference/bounded.hpp"

namespace dos::test::gemm_kernel_test {
namespace {

using codelets::MatrixView;

struct Shape {
  Index rows;
  Index columns;
  Index inner;
};
// Around the tiles of 512 that are widened at a time.
constexpr Shape kShapes[] = {{1, 1, 1},    {1, 7, 5},     {3, 2, 1},     {17, 33, 9},
                             {64, 64, 64}, {511, 3, 513}, {2, 513, 514}, {515, 4, 1030}};

/// A matrix of BF16 elements whose stored rows have a gap behind them.
struct Stored {
  Stored(Index rows, Index columns, bool is_transposed, std::uint64_t seed)
      : transposed(is_transposed),
        stride((transposed ? rows : columns) + 3),
        values(random_values((transposed ? columns : rows) * stride, seed)) {}

  [[nodiscard]] double at(Index row, Index column) const {
    const Index place = transposed ? column * stride + row : row * stride + column;
    return values[static_cast<std::size_t>(place)];
  }
  [[nodiscard]] MatrixView<BF16> view() const {
    return {values.elements(), stride, transposed ? CblasTrans : CblasNoTrans};
  }

  bool transposed;
  Index stride;
  Input<BF16> values;
};

using Multiply = void (*)(Index, Index, Index, MatrixView<BF16>, MatrixView<BF16>, bool, float*,
                          Index);

// Products are exact; each of the additions, in whatever order, rounds by half an eps. What stands
// behind the columns of c stays.
void check(Multiply multiply, const Shape& s, bool a_transposed, bool b_transposed,
           bool accumulate) {
  SCOPED_TRACE(testing::Message() << s.rows << " x " << s.columns << " x " << s.inner << " "
                                  << a_transposed << b_transposed << accumulate);
  const Stored a(s.rows, s.inner, a_transposed, 1);
  const Stored b(s.inner, s.columns, b_transposed, 2);
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
  expect_close<float>(got, expected, static_cast<double>(s.inner + 1) / 2 * kEps);
}

void check_all(Multiply multiply) {
  for (const Shape& s : kShapes)
    for (const int options : {0, 1, 2, 3, 4, 5, 6, 7})
      check(multiply, s, (options & 1) != 0, (options & 2) != 0, (options & 4) != 0);
}

TEST(Bf16Product, MatchesTheReference) {
  check_all(&codelets::multiply);
}

TEST(Bf16Product, MatchesTheReferenceWhereTheProcessorHasNoKernels) {
  check_all(&codelets::multiply_widened);
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
TEST(Bf16Product, StartsNoThreads) {
  const Stored a(600, 600, false, 1);
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

TEST(Bf16Product, EveryThreadGivesTheSameBits) {
  const Stored a(70, 70, false, 1);
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

}  // namespace
}  // namespace dos::test::gemm_kernel_test
