// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/cases.hpp"
#include "codelets/embedding/embedding_codelet.hpp"

namespace dos::test {
namespace {

using namespace codelets;

constexpr EmbeddingShape kShape{.sequences = 2, .context = 5, .width = 6};
constexpr Index kElements = kShape.sequences * kShape.context * kShape.width;
// Both tables end with a short block. The last rows of the position table are beyond the context.
constexpr RowBlocking kTokenTable{.rows = 7, .columns = kShape.width, .rows_per_block = 3};
constexpr RowBlocking kPositionTable{.rows = 8, .columns = kShape.width, .rows_per_block = 3};

Buffer tokens() {
  const Index count = kShape.sequences * (kShape.context + 1);
  return {.type = DType::kI32,
          .count = count,
          .inputs = {{0, count}},
          .values = Values::kTokens,
          .vocabulary = kTokenTable.rows};
}

template <class T>
Case forward() {
  Case c{.name = typed_name<T>("embedding_forward"),
         .codelet = &codelet_of<EmbeddingForward, T>(),
         .buffers = {tokens(), writes(kElements, kTypeOf<T>)},
         .submit = {},
         .kernel = {}};
  constexpr Index kToken = 2;
  constexpr Index kPosition = kToken + kTokenTable.count();
  add_matrix(c.buffers, kTokenTable, Access::kReads, kTokenTable.rows, kTypeOf<T>);
  add_matrix(c.buffers, kPositionTable, Access::kReads, kShape.context, kTypeOf<T>);
  c.submit = [](rt::Submitter& s, const Handles& h) {
    submit<EmbeddingForward>(s,
                             {.tokens = h[0],
                              .y = h[1],
                              .token_table = h.matrix(kTokenTable, kToken),
                              .position_table = h.matrix(kPositionTable, kPosition)},
                             kShape, {});
  };
  c.kernel = [](const Memory& m) {
    const auto token_blocks = m.blocks<const T>(kTokenTable, kToken);
    const auto position_blocks = m.blocks<const T>(kPositionTable, kPosition);
    simd::dispatch([&]<simd::Isa kIsa>() {
      embedding_forward_cpu<kIsa>(kShape, m.at<std::int32_t>(0), {kTokenTable, token_blocks.data()},
                                  {kPositionTable, position_blocks.data()}, m.at<T>(1));
    });
  };
  return c;
}

template <class T>
Case forward_token() {
  Case c{.name = typed_name<T>("token_embedding_forward"),
         .codelet = &codelet_of<TokenEmbeddingForward, T>(),
         .buffers = {tokens(), writes(kElements, kTypeOf<T>)},
         .submit = {},
         .kernel = {}};
  add_matrix(c.buffers, kTokenTable, Access::kReads, kTokenTable.rows, kTypeOf<T>);
  c.submit = [](rt::Submitter& s, const Handles& h) {
    submit<TokenEmbeddingForward>(s, {.tokens = h[0], .y = h[1], .table = h.matrix(kTokenTable, 2)},
                                  kShape, {});
  };
  c.kernel = [](const Memory& m) {
    const auto blocks = m.blocks<const T>(kTokenTable, 2);
    simd::dispatch([&]<simd::Isa kIsa>() {
      embedding_forward_cpu<kIsa>(kShape, m.at<std::int32_t>(0), {kTokenTable, blocks.data()}, {},
                                  m.at<T>(1));
    });
  };
  return c;
}

template <class T, class G>
Case backward_token(bool accumulate) {
  Case c{.name = typed_name<T, G>(accumulate ? "embedding_backward_token"
                                             : "embedding_overwrite_token"),
         .codelet = accumulate ? &codelet_of<EmbeddingBackwardToken, T, G>()
                               : &codelet_of<EmbeddingOverwriteToken, T, G>(),
         .buffers = {tokens(), reads(kElements, Values::kUniform, kTypeOf<T>)},
         .submit = {},
         .kernel = {}};
  add_matrix(c.buffers, kTokenTable, accumulate ? Access::kUpdates : Access::kWrites,
             kTokenTable.rows, kTypeOf<G>);
  c.submit = [accumulate](rt::Submitter& s, const Handles& h) {
    submit_token_gradient(s, accumulate,
                          {.tokens = h[0], .dy = h[1], .dtable = h.matrix(kTokenTable, 2)}, kShape,
                          {});
  };
  c.kernel = [accumulate](const Memory& m) {
    for (Index b = 0; b < kTokenTable.count(); ++b) {
      const TableBlock block{kTokenTable.first_row(b), kTokenTable.rows_of(b)};
      simd::dispatch([&]<simd::Isa kIsa>() {
        embedding_backward_token_cpu<kIsa>(kShape, block, m.at<std::int32_t>(0), m.at<const T>(1),
                                           accumulate, m.at<G>(2 + b));
      });
    }
  };
  return c;
}

template <class T, class G>
Case backward_position(bool accumulate) {
  Case c{.name = typed_name<T, G>(accumulate ? "embedding_accumulate_position"
                                             : "embedding_backward_position"),
         .codelet = accumulate ? &codelet_of<EmbeddingAccumulatePosition, T, G>()
                               : &codelet_of<EmbeddingBackwardPosition, T, G>(),
         .buffers = {reads(kElements, Values::kUniform, kTypeOf<T>)},
         .submit = {},
         .kernel = {}};
  if (accumulate) {
    add_matrix(c.buffers, kPositionTable, Access::kUpdates, kShape.context, kTypeOf<G>);
  } else {
    add_matrix(c.buffers, kPositionTable, Access::kWrites, kPositionTable.rows, kTypeOf<G>);
  }
  c.submit = [accumulate](rt::Submitter& s, const Handles& h) {
    const MatrixRef dtable = h.matrix(kPositionTable, 1);
    if (accumulate)
      submit<EmbeddingAccumulatePosition>(s, {.dy = h[0], .dtable = dtable}, kShape, {});
    else
      submit<EmbeddingBackwardPosition>(s, {.dy = h[0], .dtable = dtable}, kShape, {});
  };
  c.kernel = [accumulate](const Memory& m) {
    for (Index b = 0; b < kPositionTable.count(); ++b) {
      const TableBlock block{kPositionTable.first_row(b), kPositionTable.rows_of(b)};
      simd::dispatch([&]<simd::Isa kIsa>() {
        embedding_backward_position_cpu<kIsa>(kShape, block, m.at<const T>(0), accumulate,
                                              m.at<G>(1 + b));
      });
    }
  };
  return c;
}

}  // namespace

std::vector<Case> embedding_cases() {
  std::vector<Case> cases{forward<float>(), forward<BF16>(), forward_token<float>(),
                          forward_token<BF16>()};
  add_gradient_cases(cases, []<class T, class G>() {
    return std::vector<Case>{backward_token<T, G>(true), backward_token<T, G>(false),
                             backward_position<T, G>(false), backward_position<T, G>(true)};
  });
  return cases;
}

}  // namespace dos::test
