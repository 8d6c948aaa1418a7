// SPDX-License-Identifier: Apache-2.0
#include "models/config.hpp"

#include <limits>

#include "base/error.hpp"

namespace dos::models {
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

}  // namespace

void ModelConfig::validate() const {
  expect_size("model.layers", layers, kMostLayers);
  expect_size("model.width", width, kMostWidth);
  expect_size("model.heads", heads, kMostWidth);
  expect_size("model.context", context, kMostContext);
  expect_positive("model.vocab", vocabulary);
  expect(width % heads == 0,
         "model.heads = {} does not divide model.width = {}: every head has the same size", heads,
         width);
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

}  // namespace dos::models
