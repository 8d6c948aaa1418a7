// SPDX-License-Identifier: Apache-2.0
#include "shape/model_config.hpp"

#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace dos::shape {
namespace {

void expect_positive(const char* key, Index value) {
  expect(value > 0, "{} must be at least 1, got {}", key, value);
}

// Far beyond any model, and small enough that products of a few of them fit 64 bits and that lists
// of all parameters stay short.
constexpr Index kMostLayers = 10'000;
constexpr Index kMostWidth = Index{1} << 20;
constexpr Index kMostContext = Index{1} << 28;

void expect_size(const char* key, Index value, Index most) {
  expect_positive(key, value);
  expect(value <= most, "{} = {}: more than {}, which no model has; lower it", key, value, most);
}

void expect_scaling(const RopeScaling& scaling) {
  const auto& [factor, low, high, original] = scaling;
  expect(std::isfinite(factor) && factor >= 1,
         "model.rope_factor = {} must be at least 1 (1: positions as they are)", factor);
  expect(low > 0 && high > low && std::isfinite(high),
         "model.rope_low_freq = {} and model.rope_high_freq = {}: the first must be above 0 and "
         "below the second",
         low, high);
  expect_size("model.rope_context", original, kMostContext);
}

}  // namespace

void ModelConfig::validate() const {
  expect_size("model.layers", layers, kMostLayers);
  expect_size("model.width", width, kMostWidth);
  expect_size("model.heads", heads, kMostWidth);
  expect_size("model.context", context, kMostContext);
  expect_positive("model.vocab", vocabulary);
  expect(head_dim >= 0 && head_dim <= kMostWidth, "model.head_dim = {} is no size of a head",
         head_dim);
  expect(head_dim != 0 || width % heads == 0,
         "model.heads = {} does not divide model.width = {}: every head has the same size", heads,
         width);
  expect(kv_heads == 0 || (kv_heads > 0 && heads % kv_heads == 0),
         "model.kv_heads = {} does not divide model.heads = {}: each serves as many heads; use one "
         "that does, or 0 for as many",
         kv_heads, heads);
  expect(ffn >= 0 && ffn <= 16 * kMostWidth, "model.ffn = {} is no width", ffn);
  expect(std::isfinite(rope_theta) && rope_theta > 1,
         "model.rope_theta = {} must be above 1: each pair of a head turns slower than the one "
         "before it",
         rope_theta);
  expect_scaling(rope_scaling);
  // In single precision.
  expect(static_cast<float>(norm_epsilon) > 0 && norm_epsilon < 1,
         "model.norm_eps = {} must lie between 0 and 1", norm_epsilon);
  expect(window >= 0, "model.window = {} must be at least 1 (or 0: all tokens)", window);
  expect(vocabulary <= std::numeric_limits<std::int32_t>::max(),
         "model.vocab = {} is above 2^31 - 1, the largest token", vocabulary);
}

void RunShape::validate() const {
  expect_positive("train.batch", batch);
  expect_positive("train.lanes", lanes);
  expect_positive("train.logits_rows", logits_rows);
  expect(lanes <= batch,
         "train.lanes = {} is above train.batch = {}: a lane needs at least one sequence", lanes,
         batch);
}

}  // namespace dos::shape
