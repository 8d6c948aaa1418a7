// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention_codelet.hpp"
#include "codelets/conformance/cases.hpp"

namespace dos::test {
namespace {

using namespace codelets;

// More tokens than the kernel takes rows at a time.
constexpr AttentionShape kShape{.sequences = 2,
                                .tokens = kAttentionRows + 6,
                                .heads = 2,
                                .head_size = 5,
                                .kv_heads = 1,
                                .window = 9};
constexpr Index kTokens = kShape.sequences * kShape.tokens;
constexpr Index kWidth = kShape.width();
constexpr Index kScores = kTokens * kShape.heads;

template <class T>
Case forward() {
  return {
      .name = typed_name<T>("attention_forward"),
      .codelet = &codelet_of<AttentionForward, T>(),
      .buffers = {reads(kTokens * kShape.qkv_width(), Values::kUniform, kTypeOf<T>),
                  writes(kTokens * kWidth, kTypeOf<T>), writes(kScores),
                  works_in(attention_workspace(kShape))},
      .submit =
          [](rt::Submitter& submitter, const Handles& h) {
            submit<AttentionForward>(
                submitter, {.qkv = h[0], .out = h[1], .logsumexp = h[2], .workspace = h[3]}, kShape,
                {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              attention_forward_cpu<kIsa>(kShape, m.at<const T>(0), m.at<T>(1), m.at<float>(2),
                                          m.at<float>(3));
            });
          },
  };
}

// Of a sequence that goes on, in a buffer with room for more tokens.
constexpr AttentionShape kLaterShape{.sequences = 1,
                                     .tokens = kAttentionRows + 6,
                                     .heads = 2,
                                     .head_size = 5,
                                     .kv_heads = 1,
                                     .window = 9,
                                     .first = kAttentionRows - 3};

template <class T>
Case forward_later() {
  constexpr Index kRow = kLaterShape.qkv_width();
  return {
      .name = typed_name<T>("attention_forward_later"),
      .codelet = &codelet_of<AttentionForward, T>(),
      .buffers = {reads_part((kLaterShape.tokens + 2) * kRow, {{0, kLaterShape.tokens * kRow}},
                             kTypeOf<T>),
                  writes(kLaterShape.queries() * kLaterShape.width(), kTypeOf<T>),
                  writes(kLaterShape.queries() * kLaterShape.heads),
                  works_in(attention_workspace(kLaterShape))},
      .submit =
          [](rt::Submitter& submitter, const Handles& h) {
            submit<AttentionForward>(
                submitter, {.qkv = h[0], .out = h[1], .logsumexp = h[2], .workspace = h[3]},
                kLaterShape, {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              attention_forward_cpu<kIsa>(kLaterShape, m.at<const T>(0), m.at<T>(1), m.at<float>(2),
                                          m.at<float>(3));
            });
          },
  };
}

template <class T>
Case backward() {
  return {
      .name = typed_name<T>("attention_backward"),
      .codelet = &codelet_of<AttentionBackward, T>(),
      .buffers = {reads(kTokens * kShape.qkv_width(), Values::kUniform, kTypeOf<T>),
                  reads(kTokens * kWidth, Values::kUniform, kTypeOf<T>), reads(kScores),
                  reads(kTokens * kWidth, Values::kUniform, kTypeOf<T>),
                  writes(kTokens * kShape.qkv_width(), kTypeOf<T>),
                  works_in(attention_workspace(kShape))},
      .submit =
          [](rt::Submitter& submitter, const Handles& h) {
            submit<AttentionBackward>(submitter,
                                      {.qkv = h[0],
                                       .out = h[1],
                                       .logsumexp = h[2],
                                       .dout = h[3],
                                       .dqkv = h[4],
                                       .workspace = h[5]},
                                      kShape, {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              attention_backward_cpu<kIsa>(kShape, m.at<const T>(0), m.at<const T>(1),
                                           m.at<float>(2), m.at<const T>(3), m.at<T>(4),
                                           m.at<float>(5));
            });
          },
  };
}

}  // namespace

std::vector<Case> attention_cases() {
  return {forward<float>(), forward_later<float>(), backward<float>(),
          forward<BF16>(),  forward_later<BF16>(),  backward<BF16>()};
}

}  // namespace dos::test
