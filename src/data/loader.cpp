// SPDX-License-Identifier: Apache-2.0
#include "data/loader.hpp"

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"

namespace dos::data {
namespace {

void expect_positive(Index value, const char* key) {
  expect(value > 0, "{} must be at least 1, is {}", key, value);
}

std::uint64_t epoch_key(std::uint64_t seed, Index epoch) {
  static const std::uint64_t stream = stream_of("data.loader");
  const auto words = Philox(seed).block(static_cast<std::uint64_t>(epoch), stream);
  return std::uint64_t{words[0]} << 32U | words[1];
}

constexpr bool is_in(Index value, Index size) {
  return value >= 0 && value < size;
}

}  // namespace

Index sample_index(const BatchShape& shape, const BatchPosition& position, Index sequence) {
  require(position.first_sample >= 0 && is_in(position.micro_batch, shape.accumulate) &&
              is_in(position.rank, shape.ranks) && is_in(sequence, shape.batch),
          "sample outside the batch");
  return position.first_sample +
         (position.micro_batch * shape.ranks + position.rank) * shape.batch + sequence;
}

std::vector<std::int32_t> read_micro_batch(
    Index context, const BatchShape& shape, const BatchPosition& position,
    const std::function<void(Index index, std::span<std::int32_t> out)>& sample) {
  const auto row = static_cast<std::size_t>(context + 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.batch) * row);
  for (Index sequence = 0; sequence < shape.batch; ++sequence)
    sample(sample_index(shape, position, sequence),
           std::span(tokens).subspan(static_cast<std::size_t>(sequence) * row, row));
  return tokens;
}

Loader::Loader(TokenFile file, const LoaderConfig& config)
    : file_(std::move(file)), config_(config) {
  expect_positive(config.context, "model.context");
  expect_positive(config.vocabulary, "model.vocab");
  expect(file_.size() > config.context,
         "{}: {} tokens, but a sample with model.context={} takes {}; prepare more text or lower "
         "model.context",
         file_.path().string(), file_.size(), config.context, config.context + 1);
  windows_ = (file_.size() - 1) / config.context;
}

Index Loader::window_of(Index index) const {
  const Index position = index % windows_;
  if (!config_.shuffle) return position;
  return Permutation(windows_, epoch_key(config_.seed, index / windows_))(position);
}

void Loader::sample(Index index, std::span<std::int32_t> out) const {
  require(index >= 0, "negative sample index");
  require(std::ssize(out) == config_.context + 1, "a sample is context + 1 tokens");
  const Index first = window_of(index) * config_.context;
  file_.read(first, out);
  file_.expect_inside(config_.vocabulary, first, out);
}

std::vector<std::int32_t> Loader::micro_batch(const BatchShape& shape,
                                              const BatchPosition& position) const {
  return read_micro_batch(config_.context, shape, position,
                          [this](Index index, auto out) { sample(index, out); });
}

}  // namespace dos::data
