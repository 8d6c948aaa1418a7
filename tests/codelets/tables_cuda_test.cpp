// SPDX-License-Identifier: Apache-2.0
// Matrix products and embedding tables, which lie in row blocks, on an NVIDIA GPU.
#include <algorithm>
#include <memory>

#include "codelets/cuda_test.hpp"
#include "codelets/embedding/embedding.hpp"
#include "codelets/linear/linear.hpp"
#include "codelets/row_gaps.hpp"
#include "reference/embedding.hpp"
#include "reference/linear.hpp"

namespace dos::test::tables_cuda_test {
namespace {

using namespace codelets;

/// A matrix in row blocks on the device.
class Blocks {
 public:
  Blocks(const RowBlocking& blocking, const Elements& all) : blocking_(blocking) {
    const auto values = all.values();
    for (Index b = 0; b < blocking.count(); ++b) {
      const auto first = values.begin() + blocking.first_row(b) * blocking.columns;
      const std::vector<float> part(first, first + blocking.rows_of(b) * blocking.columns);
      blocks_.push_back(std::make_unique<OnGpu>(Elements(all.type(), part)));
      pointers_.push_back(blocks_.back()->get());
    }
  }
  [[nodiscard]] RowBlocks<const void> rows() const { return {blocking_, pointers_.data()}; }

 private:
  RowBlocking blocking_;
  std::vector<std::unique_ptr<OnGpu>> blocks_;
  std::vector<const void*> pointers_;
};

struct Shape {
  Index tokens;
  Index in;
  Index out;
  Index rows_per_block;
};
constexpr Shape kShapes[] = {{0, 4, 3, 2},       {1, 1, 1, 1},       {1, 3, 2, 5},
                             {2, 1, 7, 3},       {5, 17, 16, 16},    {7, 33, 31, 8},
                             {64, 64, 64, 64},   {33, 65, 50, 17},   {3, 40, 1030, 600},
                             {256, 64, 96, 96},  {300, 128, 72, 40}, {100, 136, 83, 83},
                             {90, 144, 1027, 48}};

struct Inputs {
  Inputs(const Shape& s, DType type)
      : x(type, random_values(s.tokens * s.in, 1)),
        w(type, random_values(s.out * s.in, 2)),
        bias(type, random_values(s.out, 3)),
        residual(type, random_values(s.tokens * s.out, 4)),
        dy(type, random_values(s.tokens * s.out, 5)),
        x_there(x),
        bias_there(bias),
        dy_there(dy),
        blocks({s.out, s.in, s.rows_per_block}, w) {}
  Elements x, w, bias, residual, dy;
  OnGpu x_there, bias_there, dy_there;
  Blocks blocks;
};

template <class F>
void each_shape(F&& f) {
  for (const Shape& s : kShapes)
    for (const DType type : kElementTypes) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << s.tokens << " x " << s.in << " x "
                                      << s.out << " in blocks of " << s.rows_per_block);
      f(s, type, Inputs(s, type));
    }
}

// Half an eps for each product and addition, in whatever order, and for bias and residual.
double sum_factor(Index terms) {
  return (static_cast<double>(terms) + 3) / 2 * kEps;
}

/// A matrix without the gaps between its rows.
Elements rows_of(const Elements& matrix, Index columns, const RowGap& gap) {
  return {matrix.type(), without_gaps<float>(matrix.values(), columns, gap)};
}

// A bias that cuBLAS does not take is added before the product: one more rounding of y's type.
TEST_F(CudaKernel, LinearMatchesTheReference) {
  each_shape([](const Shape& s, DType type, const Inputs& in) {
    for (const int parts : {0, 1, 2, 3}) {
      const bool bias = (parts & 1) != 0;
      const bool residual = (parts & 2) != 0;
      const auto b = in.bias.values();
      const auto r = in.residual.values();
      const auto expected =
          reference::linear(s.tokens, s.in, s.out, in.x.values().data(), in.w.values().data(),
                            bias ? b.data() : nullptr, residual ? r.data() : nullptr);
      for (const RowGap& gap : kRowGaps) {
        const OnGpu residual_there(Elements(type, with_gaps(r, s.out, gap)));
        const std::vector<float> nans(static_cast<std::size_t>(s.tokens * s.out), kCudaNan);
        Elements y(type, with_gaps(nans, s.out, gap));
        Both out(y);
        expect_done(linear_forward_cuda(cuda_context(), type, s.tokens, in.x_there.get(),
                                        in.blocks.rows(), bias ? in.bias_there.get() : nullptr,
                                        residual ? residual_there.get() : nullptr, out.get(),
                                        s.out + gap.count));
        out.bring_back();
        expect_rounded(rows_of(y, s.out, gap), expected, sum_factor(s.in) + rounding_of(type));
      }
    }
  });
}

TEST_F(CudaKernel, LinearDataGradientMatchesTheReference) {
  each_shape([](const Shape& s, DType type, const Inputs& in) {
    const double blocks = static_cast<double>(ceil_div(s.out, s.rows_per_block));
    // Rows that fill no vector are a sum of their own (whole_vectors.hpp).
    const double vectors = s.out % 8 == 0 ? 0 : 1;
    const auto expected = reference::linear_data_gradient(
        s.tokens, s.in, s.out, in.dy.values().data(), in.w.values().data());
    for (const RowGap& gap : kRowGaps) {
      const OnGpu dy(Elements(type, with_gaps(in.dy.values(), s.out, gap)));
      Elements dx = unwritten(type, s.tokens * s.in);
      Both out(dx);
      expect_done(linear_backward_data_cuda(cuda_context(), type, s.tokens, dy.get(),
                                            s.out + gap.count, in.blocks.rows(), out.get()));
      out.bring_back();
      expect_rounded(dx, expected, sum_factor(s.out) + (blocks + vectors) * rounding_of(type));
    }
  });
}

TEST_F(CudaKernel, LinearWeightAndBiasGradientsMatchTheReference) {
  each_shape([](const Shape& s, DType type, const Inputs& in) {
    const RowBlocking blocking{s.out, s.in, s.rows_per_block};
    for (const DType gradient : kElementTypes)
      for (const bool accumulate : {false, true}) {
        if (gradient == DType::kBF16 && type == DType::kF32) continue;  // no such gradients
        for (Index b = 0; b < blocking.count(); ++b) {
          const Index first = blocking.first_row(b);
          const Index rows = blocking.rows_of(b);
          const Elements before(gradient, random_values(rows * s.in, 6));
          const auto start = before.values();
          const auto expected = reference::linear_weight_gradient(
              s.tokens, s.in, s.out, first, rows, in.dy.values().data(), in.x.values().data(),
              accumulate ? start.data() : nullptr);
          for (const RowGap& gap : kRowGaps) {
            const OnGpu dy(Elements(type, with_gaps(in.dy.values(), s.out, gap)));
            Elements dw = before;
            Both out(dw);
            expect_done(
                linear_backward_weight_cuda(cuda_context(), type, gradient,
                                            {s.tokens, s.in, s.out + gap.count, first, rows, s.in},
                                            dy.get(), in.x_there.get(), accumulate, out.get()));
            out.bring_back();
            expect_rounded(dw, expected, sum_factor(s.tokens));
          }
        }
        const Elements before(gradient, random_values(s.out, 6));
        Elements dbias = before;
        Both out(dbias);
        expect_done(bias_backward_cuda(cuda_context(), type, gradient, s.tokens, s.out,
                                       in.dy_there.get(), accumulate, out.get()));
        out.bring_back();
        const auto start = before.values();
        expect_rounded(dbias,
                       reference::bias_gradient(s.tokens, s.out, in.dy.values().data(),
                                                accumulate ? start.data() : nullptr),
                       sum_factor(s.tokens));
      }
  });
}

TEST_F(CudaKernel, ProductsHaveTheSameBitsEveryTime) {
  const Shape s{64, 4096, 48, 48};  // long sums of few results: what is split
  for (const DType type : kElementTypes) {
    const Inputs in(s, type);
    std::vector<float> first;
    for (int run = 0; run < 5; ++run) {
      Elements y = unwritten(type, s.tokens * s.out);
      Both out(y);
      expect_done(linear_forward_cuda(cuda_context(), type, s.tokens, in.x_there.get(),
                                      in.blocks.rows(), nullptr, nullptr, out.get(), s.out));
      out.bring_back();
      if (run == 0) first = y.values();
      EXPECT_EQ(y.values(), first);
    }
  }
}

struct TableShape {
  EmbeddingShape shape;
  Index vocabulary;
  Index rows_per_block;
  Index positions;
  Index positions_per_block;
};
// More blocks than one launch takes; a vocabulary of 2, in which every token comes often.
constexpr TableShape kTables[] = {{{1, 1, 1}, 1, 1, 1, 1},
                                  {{2, 3, 5}, 7, 3, 4, 3},
                                  {{3, 700, 9}, 2, 2, 1000, 900},
                                  {{2, 33, 40}, 300, 2, 40, 20},
                                  {{2, 150, 2056}, 99, 40, 150, 150},
                                  {{2, 33, 40, 6}, 300, 2, 40, 20}};

TEST_F(CudaKernel, EmbeddingMatchesTheReference) {
  for (const TableShape& t : kTables)
    for (const DType type : kElementTypes) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << t.vocabulary);
      const EmbeddingShape& s = t.shape;
      const auto tokens = random_tokens(s.sequences * (s.context + 1), t.vocabulary, 1);
      const Elements table(type, random_values(t.vocabulary * s.width, 2));
      const Elements positions(type, random_values(t.positions * s.width, 3));
      const Blocks table_there({t.vocabulary, s.width, t.rows_per_block}, table);
      const Blocks positions_there({t.positions, s.width, t.positions_per_block}, positions);
      const auto batch = batch_of(tokens, Counted::kSome);
      const OnGpu tokens_there(batch.data(), std::ssize(batch) * Index{sizeof(std::int32_t)});
      Elements y = unwritten(type, s.sequences * s.context * s.width);
      Both out(y);
      expect_done(embedding_forward_cuda(cuda_context(), type, s, tokens_there.as<std::int32_t>(),
                                         table_there.rows(), positions_there.rows(), out.get()));
      out.bring_back();
      expect_rounded(y,
                     reference::embedding(s.sequences, s.context, s.width, tokens.data(),
                                          table.values().data(),
                                          positions.values().data() + s.first * s.width),
                     kEps);
      // Without positions a row of the table comes as it is.
      Both alone(y);
      expect_done(embedding_forward_cuda(cuda_context(), type, s, tokens_there.as<std::int32_t>(),
                                         table_there.rows(), {}, alone.get()));
      alone.bring_back();
      for (Index i = 0; i < y.count(); ++i) {
        const Index token = tokens[static_cast<std::size_t>(i / s.width + i / s.width / s.context)];
        ASSERT_EQ(y.get(i), table.get(token * s.width + i % s.width)) << i;
      }
    }
}

/// The kernels add in the order of the tokens: FP32 gradients are those of a plain loop, bit by
/// bit, and BF16 ones their rounding.
void expect_bits(const Elements& got, const std::vector<float>& expected) {
  const Elements rounded(got.type(), expected);
  for (Index i = 0; i < got.count(); ++i) ASSERT_EQ(got.get(i), rounded.get(i)) << i;
}

TEST_F(CudaKernel, EmbeddingGradientsAreThoseOfALoop) {
  for (const TableShape& t : kTables)
    for (const DType type : kElementTypes)
      for (const DType gradient : kElementTypes)
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(testing::Message() << name_of(type) << " " << name_of(gradient) << " "
                                          << t.vocabulary << " " << accumulate);
          const EmbeddingShape& s = t.shape;
          const auto tokens = random_tokens(s.sequences * (s.context + 1), t.vocabulary, 1);
          const Elements dy(type, random_values(s.sequences * s.context * s.width, 2));
          const auto batch = batch_of(tokens, Counted::kSome);
          const OnGpu tokens_there(batch.data(), std::ssize(batch) * Index{sizeof(std::int32_t)});
          const OnGpu dy_there(dy);
          const RowBlocking blocking{t.vocabulary, s.width, t.rows_per_block};
          const TableBlock block{blocking.first_row(blocking.count() - 1),
                                 blocking.rows_of(blocking.count() - 1)};
          Elements table(gradient, random_values(block.rows * s.width, 3));
          std::vector<float> expected = table.values();
          Both table_there(table);
          expect_done(embedding_backward_token_cuda(cuda_context(), type, gradient, s, block,
                                                    tokens_there.as<std::int32_t>(), dy_there.get(),
                                                    accumulate, table_there.get()));
          if (!accumulate) std::fill(expected.begin(), expected.end(), 0.0F);
          const TableBlock rows{0, t.positions};
          Elements positions(gradient, random_values(rows.rows * s.width, 4));
          std::vector<float> sums = positions.values();
          if (!accumulate) std::fill(sums.begin(), sums.end(), 0.0F);
          Both positions_there(positions);
          expect_done(embedding_backward_position_cuda(cuda_context(), type, gradient, s, rows,
                                                       dy_there.get(), accumulate,
                                                       positions_there.get()));
          for (Index i = 0; i < s.sequences * s.context; ++i) {
            const Index position = i % s.context;
            const Index token = tokens[static_cast<std::size_t>(i + i / s.context)];
            const Index row = token - block.first_row;
            for (Index c = 0; c < s.width; ++c) {
              const float g = dy.get(i * s.width + c);
              sums[static_cast<std::size_t>(position * s.width + c)] += g;
              if (row >= 0 && row < block.rows)
                expected[static_cast<std::size_t>(row * s.width + c)] += g;
            }
          }
          table_there.bring_back();
          positions_there.bring_back();
          expect_bits(table, expected);
          expect_bits(positions, sums);
        }
}

}  // namespace
}  // namespace dos::test::tables_cuda_test
