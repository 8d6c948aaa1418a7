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

Case forward() {
  Case c{.name = "embedding_forward",
         .codelet = &embedding_forward_codelet(),
         .buffers = {tokens(), writes(kElements)},
         .submit = {},
         .kernel = {}};
  constexpr Index kToken = 2;
  constexpr Index kPosition = kToken + kTokenTable.count();
  add_matrix(c.buffers, kTokenTable, Access::kReads, kTokenTable.rows);
  add_matrix(c.buffers, kPositionTable, Access::kReads, kShape.context);
  c.submit = [](rt::Submitter& s, const Handles& h) {
    submit_embedding_forward(s, kShape, h[0], h.matrix(kTokenTable, kToken),
                             h.matrix(kPositionTable, kPosition), h[1], {});
  };
  c.kernel = [](const Memory& m) {
    const auto token_blocks = m.blocks<const float>(kTokenTable, kToken);
    const auto position_blocks = m.blocks<const float>(kPositionTable, kPosition);
    simd::dispatch([&]<simd::Isa kIsa>() {
      embedding_forward_cpu<kIsa>(kShape, m.at<std::int32_t>(0), {kTokenTable, token_blocks.data()},
                                  {kPositionTable, position_blocks.data()}, m.at<float>(1));
    });
  };
  return c;
}

Case backward_token() {
  Case c{.name = "embedding_backward_token",
         .codelet = &embedding_backward_token_codelet(),
         .buffers = {tokens(), reads(kElements)},
         .submit = {},
         .kernel = {}};
  add_matrix(c.buffers, kTokenTable, Access::kUpdates, kTokenTable.rows);
  c.submit = [](rt::Submitter& s, const Handles& h) {
    submit_embedding_backward_token(s, kShape, h[0], h[1], h.matrix(kTokenTable, 2), {});
  };
  c.kernel = [](const Memory& m) {
    for (Index b = 0; b < kTokenTable.count(); ++b) {
      const TableBlock block{kTokenTable.first_row(b), kTokenTable.rows_of(b)};
      simd::dispatch([&]<simd::Isa kIsa>() {
        embedding_backward_token_cpu<kIsa>(kShape, block, m.at<std::int32_t>(0), m.at<float>(1),
                                           m.at<float>(2 + b));
      });
    }
  };
  return c;
}

Case backward_position(bool accumulate) {
  Case c{.name = accumulate ? "embedding_accumulate_position" : "embedding_backward_position",
         .codelet = accumulate ? &embedding_accumulate_position_codelet()
                               : &embedding_backward_position_codelet(),
         .buffers = {reads(kElements)},
         .submit = {},
         .kernel = {}};
  if (accumulate) {
    add_matrix(c.buffers, kPositionTable, Access::kUpdates, kShape.context);
  } else {
    add_matrix(c.buffers, kPositionTable, Access::kWrites, kPositionTable.rows);
  }
  c.submit = [accumulate](rt::Submitter& s, const Handles& h) {
    submit_embedding_backward_position(s, kShape, h[0], accumulate, h.matrix(kPositionTable, 1),
                                       {});
  };
  c.kernel = [accumulate](const Memory& m) {
    for (Index b = 0; b < kPositionTable.count(); ++b) {
      const TableBlock block{kPositionTable.first_row(b), kPositionTable.rows_of(b)};
      simd::dispatch([&]<simd::Isa kIsa>() {
        embedding_backward_position_cpu<kIsa>(kShape, block, m.at<float>(0), accumulate,
                                              m.at<float>(1 + b));
      });
    }
  };
  return c;
}

}  // namespace

std::vector<Case> embedding_cases() {
  return {forward(), backward_token(), backward_position(false), backward_position(true)};
}

}  // namespace dos::test
