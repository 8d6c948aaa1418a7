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

Loader::Loader(TokenFile file, const LoaderConfig& config, std::optional<MaskFile> mask)
    : file_(std::move(file)), config_(config), mask_(std::move(mask)) {
  expect_positive(config.context, "model.context");
  expect_positive(config.vocabulary, "model.vocab");
  expect(file_.size() > config.context,
         "{}: {} tokens, but a sample with model.context={} takes {}; prepare more text or lower "
         "model.context",
         file_.path().string(), file_.size(), config.context, config.context + 1);
  windows_ = (file_.size() - 1) / config.context;
  if (mask_) find_targets();
}

void Loader::find_targets() {
  require(mask_->size() == file_.size(), "a mask of the token file");
  std::vector<Index> targets(static_cast<std::size_t>(windows_));
  mask_->count(1, config_.context, targets);
  for (Index window = 0; window < windows_; ++window)
    if (const Index count = targets[static_cast<std::size_t>(window)]; count > 0)
      counted_.push_back({window, count});
  windows_ = std::ssize(counted_);
  expect(windows_ > 0,
         "{}: no window of model.context={} tokens has one that counts; prepare more conversations "
         "with answers",
         mask_->path().string(), config_.context);
}

Index Loader::place_of(Index index) const {
  const Index position = index % windows_;
  if (!config_.shuffle) return position;
  return Permutation(windows_, epoch_key(config_.seed, index / windows_))(position);
}

void Loader::sample(Index index, std::span<std::int32_t> out) const {
  require(index >= 0, "negative sample index");
  require(std::ssize(out) == config_.context + 1, "a sample is context + 1 tokens");
  const Index place = place_of(index);
  const Index window = mask_ ? counted_[static_cast<std::size_t>(place)].window : place;
  const Index first = window * config_.context;
  file_.read(first, out);
  file_.expect_inside(config_.vocabulary, first, out);
  if (mask_) mask_->apply(first + 1, out.subspan(1));
}

Index Loader::targets(Index index) const {
  require(index >= 0, "negative sample index");
  return mask_ ? counted_[static_cast<std::size_t>(place_of(index))].targets : config_.context;
}

std::vector<std::int32_t> Loader::micro_batch(const BatchShape& shape,
                                              const BatchPosition& position) const {
  return read_micro_batch(config_.context, shape, position,
                          [this](Index index, auto out) { sample(index, out); });
}

Loader open_split(const Dataset& dataset, Split split, const LoaderConfig& config) {
  const bool is_train = split == Split::kTrain;
  const TokenFile& tokens = is_train ? dataset.train : dataset.val;
  const std::optional<MaskFile>& mask = is_train ? dataset.train_mask : dataset.val_mask;
  if (!mask) return {tokens, config};
  const auto& chat = dataset.manifest->chat;
  const Index prepared = chat ? chat->context : 0;
  expect(prepared == 0 || prepared == config.context,
         "{}: its conversations lie in windows of {} tokens, which model.context={} would cut; set "
         "model.context={}, or prepare them again with --context {}",
         tokens.path().string(), prepared, config.context, prepared, config.context);
  return {tokens, config, mask->again()};
}

}  // namespace dos::data
