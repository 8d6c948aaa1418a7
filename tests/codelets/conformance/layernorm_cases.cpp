// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/cases.hpp"
#include "codelets/layernorm/layernorm.hpp"
#include "codelets/layernorm/layernorm_codelet.hpp"

namespace dos::test {
namespace {

using namespace codelets;

constexpr NormShape kShape{.tokens = 5, .width = 19};
constexpr Index kElements = kShape.tokens * kShape.width;
constexpr Index kStatistics = 2 * kShape.tokens;

// Scale and shift lie in a handle that holds other small tensors before, between and behind them.
constexpr Index kPacked = 60;
constexpr Range kWeight{3, kShape.width};
constexpr Range kBias{30, kShape.width};

NormRef norm_in(const rt::Handle& handle) {
  return {.weight = {&handle, kWeight.first}, .bias = {&handle, kBias.first}};
}

Case forward() {
  return {
      .name = "layernorm_forward",
      .codelet = &layernorm_forward_codelet(),
      .buffers = {reads(kElements), reads_part(kPacked, {kWeight, kBias}), writes(kElements),
                  writes(kStatistics)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit_layernorm_forward(s, kShape, h[0], norm_in(h[1]), h[2], h[3], {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              layernorm_forward_cpu<kIsa>(
                  kShape.tokens, kShape.width, m.at<float>(0), m.at<float>(1) + kWeight.first,
                  m.at<float>(1) + kBias.first, m.at<float>(2), m.at<float>(3));
            });
          },
  };
}

Case backward() {
  return {
      .name = "layernorm_backward",
      .codelet = &layernorm_backward_codelet(),
      .buffers = {reads(kElements), reads_part(kPacked, {kWeight}),
                  reads(kStatistics, Values::kPositive), reads(kElements), reads(kElements),
                  writes(kElements)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit_layernorm_backward(s, kShape, h[0], norm_in(h[1]), h[2], h[3], h[4], h[5], {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              layernorm_backward_cpu<kIsa>(kShape.tokens, kShape.width, m.at<float>(0),
                                           m.at<float>(1) + kWeight.first, m.at<float>(2),
                                           m.at<float>(3), m.at<float>(4), m.at<float>(5));
            });
          },
  };
}

Case backward_last() {
  return {
      .name = "layernorm_backward_last",
      .codelet = &layernorm_backward_last_codelet(),
      .buffers = {reads(kElements), reads_part(kPacked, {kWeight}),
                  reads(kStatistics, Values::kPositive), reads(kElements), writes(kElements)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit_layernorm_backward_last(s, kShape, h[0], norm_in(h[1]), h[2], h[3], h[4], {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              layernorm_backward_cpu<kIsa>(kShape.tokens, kShape.width, m.at<float>(0),
                                           m.at<float>(1) + kWeight.first, m.at<float>(2),
                                           m.at<float>(3), nullptr, m.at<float>(4));
            });
          },
  };
}

Case backward_weight(bool accumulate) {
  return {
      .name = accumulate ? "layernorm_accumulate_weight" : "layernorm_backward_weight",
      .codelet = &layernorm_backward_weight_codelet(),
      .buffers = {reads(kElements), reads(kStatistics, Values::kPositive), reads(kElements),
                  accumulate ? updates_part(kPacked, {kWeight, kBias})
                             : writes_part(kPacked, {kWeight, kBias})},
      .submit =
          [accumulate](rt::Submitter& s, const Handles& h) {
            submit_layernorm_backward_weight(s, kShape, h[0], h[1], h[2], accumulate, norm_in(h[3]),
                                             {});
          },
      .kernel =
          [accumulate](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              layernorm_backward_weight_cpu<kIsa>(
                  kShape.tokens, kShape.width, m.at<float>(0), m.at<float>(1), m.at<float>(2),
                  accumulate, m.at<float>(3) + kWeight.first, m.at<float>(3) + kBias.first);
            });
          },
  };
}

}  // namespace

std::vector<Case> layernorm_cases() {
  return {forward(), backward(), backward_last(), backward_weight(false), backward_weight(true)};
}

}  // namespace dos::test
