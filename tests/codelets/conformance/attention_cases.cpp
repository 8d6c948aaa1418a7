// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention_codelet.hpp"
#include "codelets/conformance/cases.hpp"

namespace dos::test {
namespace {

using namespace codelets;

// More tokens than the kernel takes rows at a time.
constexpr AttentionShape kShape{
    .sequences = 2, .tokens = kAttentionRows + 6, .heads = 2, .head_size = 5};
constexpr Index kTokens = kShape.sequences * kShape.tokens;
constexpr Index kWidth = kShape.width();
constexpr Index kScores = kTokens * kShape.heads;

Case forward() {
  return {
      .name = "attention_forward",
      .codelet = &attention_forward_codelet(),
      .buffers = {reads(kTokens * 3 * kWidth), writes(kTokens * kWidth), writes(kScores),
                  works_in(attention_workspace(kShape))},
      .submit =
          [](rt::Submitter& submitter, const Handles& h) {
            submit_attention_forward(submitter, kShape, h[0], h[1], h[2], h[3], {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              attention_forward_cpu<kIsa>(kShape, m.at<float>(0), m.at<float>(1), m.at<float>(2),
                                          m.at<float>(3));
            });
          },
  };
}

Case backward() {
  return {
      .name = "attention_backward",
      .codelet = &attention_backward_codelet(),
      .buffers = {reads(kTokens * 3 * kWidth), reads(kTokens * kWidth), reads(kScores),
                  reads(kTokens * kWidth), writes(kTokens * 3 * kWidth),
                  works_in(attention_workspace(kShape))},
      .submit =
          [](rt::Submitter& submitter, const Handles& h) {
            submit_attention_backward(submitter, kShape, h[0], h[1], h[2], h[3], h[4], h[5], {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              attention_backward_cpu<kIsa>(kShape, m.at<float>(0), m.at<float>(1), m.at<float>(2),
                                           m.at<float>(3), m.at<float>(4), m.at<float>(5));
            });
          },
  };
}

}  // namespace

std::vector<Case> attention_cases() {
  return {forward(), backward()};
}

}  // namespace dos::test
