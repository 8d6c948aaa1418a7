// SPDX-License-Identifier: Apache-2.0
#include "codelets/linear/low_rank_codelet.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "low_rank_tasks.hpp"
#include "product_library.hpp"

namespace dos::test::low_rank_kernel_test {
namespace {

using namespace codelets;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
struct Inputs {
  explicit Inputs(const LowRankCase& c)
      : between(random_values(c.sizes.tokens * c.sizes.width(), 1)),
        up(random_values(c.rows() * c.sizes.rank, 2)),
        y(random_values(c.sizes.tokens * c.sizes.out, 3)),
        blocks(c.blocking(), up.view()) {
    const auto view = blocks.view();
    matrix.blocking = view.blocking;
    matrix.blocks.assign(view.blocks, view.blocks + view.blocking.count());
  }
  Input<T> between, up, y;
  BlockedMatrix<T> blocks;
  typename buffers::Matrix<rt::Mode::kRead, T>::template Blocks<const T> matrix;
};

// Half an eps for each of the products and additions, the scale and what was there.
double sum_factor(Index terms) {
  return (static_cast<double>(terms) + 3) / 2 * kEps;
}

template <class F>
void for_each_case(F&& f) {
  for (const LowRankCase& c : low_rank_shapes()) {
    SCOPED_TRACE(testing::Message() << c.sizes.tokens << " x " << c.sizes.rank << " of "
                                    << c.sizes.parts.size() << " parts of " << c.sizes.out);
    f(c);
  }
}

using LowRankKernel = EachProductLibrary;
INSTANTIATE_TEST_SUITE_P(By, LowRankKernel, testing::ValuesIn(product_libraries()), library_name);

TEST_P(LowRankKernel, ForwardMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for_each_case([&](const LowRankCase& c) {
      const Inputs<T> in(c);
      std::vector<T> between(in.between.view().begin(), in.between.view().end());
      Guarded<T> y(in.y.view());
      const LowRankTask<T> task{.args = c.args(),
                                .dy = {},
                                .y = {y.get(), in.y.view().size()},
                                .between = between,
                                .up = in.matrix};
      simd::dispatch(isa, [&]<simd::Isa kIsa>() { LowRankForward::cpu<kIsa>(task); });
      expect_close<T>(
          y.view(),
          reference::low_rank_forward(c.sizes, in.between.data(), in.up.data(), in.y.data()),
          sum_factor(c.sizes.rank));
    });
  });
}

TEST_P(LowRankKernel, DataGradientMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for_each_case([&](const LowRankCase& c) {
      const Inputs<T> in(c);
      // What was there must not matter, not even a NaN.
      Guarded<T> between(c.sizes.tokens * c.sizes.width(), element<T>(kNan));
      const LowRankTask<T> task{
          .args = c.args(),
          .dy = in.y.view(),
          .y = {},
          .between = {between.get(), static_cast<std::size_t>(c.sizes.tokens * c.sizes.width())},
          .up = in.matrix};
      simd::dispatch(isa, [&]<simd::Isa kIsa>() { LowRankBackwardData::cpu<kIsa>(task); });
      expect_close<T>(between.view(),
                      reference::low_rank_data_gradient(c.sizes, in.y.data(), in.up.data()),
                      sum_factor(c.rows()));
    });
  });
}

template <class T, class G, bool kAccumulates>
void weight_gradient_matches(simd::Isa isa, const LowRankCase& c) {
  const Inputs<T> in(c);
  const Input<G> before(random_values(c.rows() * c.sizes.rank, 4));
  const RowBlocking blocking = c.blocking();
  std::vector<G> all(before.view().begin(), before.view().end());
  for (Index b = 0; b < blocking.count(); ++b) {
    const Index first = blocking.first_row(b);
    const auto part =
        before.view().subspan(static_cast<std::size_t>(first * c.sizes.rank),
                              static_cast<std::size_t>(blocking.rows_of(b) * c.sizes.rank));
    Guarded<G> dup(part);
    const LowRankWeightTask<T, G> task{
        .args = c.args(),
        .dy = in.y.view(),
        .between = in.between.view(),
        .dup = {{first, blocking.rows_of(b), c.sizes.rank}, dup.get()}};
    simd::dispatch(
        isa, [&]<simd::Isa kIsa>() { LowRankWeight<kAccumulates>::template cpu<kIsa>(task); });
    const auto made = dup.view();
    std::copy(made.begin(), made.end(), all.begin() + first * c.sizes.rank);
  }
  expect_close<G>(std::span<const G>(all),
                  reference::low_rank_weight_gradient(c.sizes, in.y.data(), in.between.data(),
                                                      kAccumulates ? before.data() : nullptr),
                  sum_factor(c.sizes.tokens));
}

TEST_P(LowRankKernel, WeightGradientOfEachBlockMatchesTheReference) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    for_each_case([&](const LowRankCase& c) {
      weight_gradient_matches<T, G, false>(isa, c);
      weight_gradient_matches<T, G, true>(isa, c);
    });
  });
}

}  // namespace
}  // namespace dos::test::low_rank_kernel_test
