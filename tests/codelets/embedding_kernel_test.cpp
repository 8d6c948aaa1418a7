// SPDX-License-Identifier: Apache-2.0
#include "codelets/embedding/embedding.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "reference/embedding.hpp"

namespace dos::test::embedding_kernel_test {
namespace {

struct Case {
  codelets::EmbeddingShape shape;  // sequences, context, width, first
  Index vocabulary;
  Index positions;
  Index rows_per_block;
};
constexpr Case kCases[] = {
    {{0, 3, 4}, 5, 3, 2},    {{1, 1, 1}, 1, 1, 1},    {{2, 3, 5}, 4, 7, 3},
    {{3, 5, 17}, 11, 5, 4},  {{2, 9, 64}, 3, 20, 8},  {{4, 8, 100}, 50, 13, 50},
    {{2, 2, 1030}, 3, 2, 2}, {{1, 1, 5, 3}, 4, 4, 3}, {{2, 9, 64, 5}, 3, 20, 8}};

template <class T>
struct Inputs {
  explicit Inputs(const Case& c)
      : tokens(random_tokens(c.shape.sequences * (c.shape.context + 1), c.vocabulary, 1)),
        token_table(random_values(c.vocabulary * c.shape.width, 2)),
        position_table(random_values(c.positions * c.shape.width, 3)),
        dy(random_values(c.shape.sequences * c.shape.context * c.shape.width, 4)) {
    // The last of each sequence is a target only: a token outside the table must not be looked up.
    for (Index s = 0; s < c.shape.sequences; ++s) {
      tokens[static_cast<std::size_t>((s + 1) * (c.shape.context + 1) - 1)] = 1 << 30;
    }
    batch = batch_of(tokens, Counted::kSome);
  }
  std::vector<std::int32_t> tokens, batch;
  Input<T> token_table, position_table, dy;
};

// One addition: half an eps.
TEST(EmbeddingKernel, ForwardMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const Case& c : kCases) {
      const Inputs<T> in(c);
      const BlockedMatrix<T> tokens({c.vocabulary, c.shape.width, c.rows_per_block},
                                    in.token_table.view());
      const BlockedMatrix<T> positions({c.positions, c.shape.width, c.rows_per_block},
                                       in.position_table.view());
      Guarded<T> y(static_cast<Index>(in.dy.size()));
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::embedding_forward_cpu<kIsa>(c.shape, in.batch.data(), tokens.view(),
                                              positions.view(), y.get());
      });
      expect_close<T>(
          y.view(),
          reference::embedding(c.shape.sequences, c.shape.context, c.shape.width, in.tokens.data(),
                               in.token_table.data(),
                               in.position_table.data() + c.shape.first * c.shape.width),
          0.5 * kEps);
      // Without positions a row of the table comes as it is.
      Guarded<T> alone(static_cast<Index>(in.dy.size()));
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::embedding_forward_cpu<kIsa>(c.shape, in.batch.data(), tokens.view(), {},
                                              alone.get());
      });
      for (Index i = 0; i < alone.count(); ++i) {
        const Index at = i / c.shape.width;
        const Index token = in.tokens[static_cast<std::size_t>(at + at / c.shape.context)];
        const auto element = static_cast<std::size_t>(token * c.shape.width + i % c.shape.width);
        EXPECT_EQ(to_float(alone[i]), in.token_table[element]) << i;
      }
    }
  });
}

// One addition for each token at most.
double sum_factor(const Case& c) {
  return static_cast<double>(c.shape.sequences * c.shape.context) * 0.5 * kEps;
}

TEST(EmbeddingKernel, TokenGradientOfEachBlockMatchesTheReference) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    for (const Case& c : kCases) {
      const Inputs<T> in(c);
      const RowBlocking blocking{c.vocabulary, c.shape.width, c.rows_per_block};
      for (Index b = 0; b < blocking.count(); ++b) {
        const codelets::TableBlock block{blocking.first_row(b), blocking.rows_of(b)};
        const Input<G> before(random_values(block.rows * c.shape.width, 5));
        const std::vector<float> nothing(before.size());
        for (const bool accumulate : {false, true}) {
          Guarded<G> dtable(before.view());
          simd::dispatch(isa, [&]<simd::Isa kIsa>() {
            codelets::embedding_backward_token_cpu<kIsa>(
                c.shape, block, in.batch.data(), in.dy.elements(), accumulate, dtable.get());
          });
          expect_close<G>(
              dtable.view(),
              reference::token_table_gradient(
                  c.shape.sequences, c.shape.context, c.shape.width, block.first_row, block.rows,
                  in.tokens.data(), in.dy.data(), accumulate ? before.data() : nothing.data()),
              sum_factor(c));
        }
      }
    }
  });
}

TEST(EmbeddingKernel, PositionGradientOfEachBlockMatchesTheReference) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    for (const Case& c : kCases) {
      const Inputs<T> in(c);
      const RowBlocking blocking{c.positions, c.shape.width, c.rows_per_block};
      for (Index b = 0; b < blocking.count(); ++b) {
        const codelets::TableBlock block{blocking.first_row(b), blocking.rows_of(b)};
        for (const bool accumulate : {false, true}) {
          const Input<G> before(random_values(block.rows * c.shape.width, 5));
          Guarded<G> dtable(before.view());
          simd::dispatch(isa, [&]<simd::Isa kIsa>() {
            codelets::embedding_backward_position_cpu<kIsa>(c.shape, block, in.dy.elements(),
                                                            accumulate, dtable.get());
          });
          expect_close<G>(dtable.view(),
                          reference::position_table_gradient(
                              c.shape.sequences, c.shape.context, c.shape.width, block.first_row,
                              block.rows, in.dy.data(), accumulate ? before.data() : nullptr),
                          sum_factor(c));
        }
      }
    }
  });
}

// 300 gradients of 1: a sum that were rounded to BF16 at each addition would stop at 256.
TEST(EmbeddingKernel, ATokenThatIsEverywhereLosesNothing) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    const codelets::EmbeddingShape shape{3, 100, 2};
    const std::vector<std::int32_t> tokens(3 * 101, 1);
    const Input<T> dy(std::vector<float>(600, 1.0F));
    Guarded<G> gradient(4);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::embedding_backward_token_cpu<kIsa>(shape, {0, 2}, tokens.data(), dy.elements(),
                                                   true, gradient.get());
    });
    for (Index i = 0; i < 4; ++i) EXPECT_EQ(to_float(gradient[i]), i < 2 ? 0 : 300);
  });
}

TEST(EmbeddingKernel, BadGradientsReachTheTables) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    const codelets::EmbeddingShape shape{1, 2, 3};
    const std::vector<std::int32_t> tokens{4, 1, 0};
    Input<T> dy(std::vector<float>(6, 1.0F));
    dy.set(4, std::numeric_limits<float>::quiet_NaN());
    Guarded<G> token_gradient(15);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::embedding_backward_token_cpu<kIsa>(shape, {0, 5}, tokens.data(), dy.elements(),
                                                   true, token_gradient.get());
    });
    for (Index i = 0; i < 15; ++i) EXPECT_EQ(std::isnan(to_float(token_gradient[i])), i == 4) << i;
    Guarded<G> position_gradient(6);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::embedding_backward_position_cpu<kIsa>(shape, {0, 2}, dy.elements(), false,
                                                      position_gradient.get());
    });
    for (Index i = 0; i < 6; ++i)
      EXPECT_EQ(std::isnan(to_float(position_gradient[i])), i == 4) << i;
  });
}

}  // namespace
}  // namespace dos::test::embedding_kernel_test
