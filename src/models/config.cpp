// SPDX-License-Identifier: Apache-2.0
#include "models/config.hpp"

#include <limits>

#include "base/error.hpp"

namespace dos::models {
namespace {

void expect_positive(const char* key, Index value) {
  expect(value > 0, "{} must be at least 1, got {}", key, value);
}

}  // namespace

void ModelConfig::validate() const {
  expect_positive("model.layers", layers);
  expect_positive("model.width", width);
  expect_positive("model.heads", heads);
  expect_positive("model.context", context);
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
