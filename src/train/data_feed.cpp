// SPDX-License-Identifier: Apache-2.0
#include "train/data_feed.hpp"

#include <utility>

#include "base/error.hpp"

namespace dos::train {
namespace {

/// Validation reads the same windows every time, drawn from all of the split whatever the run's
/// seed.
constexpr std::uint64_t kValidationSeed = 0;

/// The samples of a split, of all sources by their weights.
data::Mixture mix(const data::Sources& sources, data::Split split, const shape::ModelConfig& model,
                  std::uint64_t seed) {
  const data::LoaderConfig config{
      .context = model.context, .vocabulary = model.vocabulary, .seed = seed, .shuffle = true};
  std::vector<data::Mixture::Part> parts;
  for (const auto& [name, dataset] : sources)
    parts.push_back({.loader = data::open_split(dataset, split, config),
                     .weight = name.weight,
                     .name = name.prefix});
  return {std::move(parts), seed};
}

DataFeed::MicroBatches read_all(const data::Mixture& samples, const data::BatchShape& shape,
                                data::BatchPosition position) {
  DataFeed::MicroBatches batches;
  for (; position.micro_batch < shape.accumulate; ++position.micro_batch)
    batches.push_back(samples.micro_batch(shape, position));
  return batches;
}

}  // namespace

DataFeed::DataFeed(const data::Sources& sources, const Run& run)
    : train_(mix(sources, data::Split::kTrain, run.model,
                 static_cast<std::uint64_t>(run.config.train.seed))),
      validation_(mix(sources, data::Split::kValidation, run.model, kValidationSeed)),
      shape_{.batch = run.config.train.batch,
             .accumulate = run.config.train.accumulate,
             .ranks = run.share.ranks},
      validation_shape_{.batch = run.config.train.batch,
                        .accumulate = run.config.train.validate_batches,
                        .ranks = run.share.ranks},
      rank_(run.share.rank),
      depth_(run.config.train.run_ahead),
      last_step_(run.config.last_step()) {}

void DataFeed::start(Index step, Index samples) {
  start_step_ = step;
  start_samples_ = samples;
  next_ = step + 1;
  ahead_.clear();
  fault_.reset();
  for (Index i = 0; i < depth_; ++i) read_ahead();
  if (ahead_.empty() && fault_) fail("{}", *fault_);
}

void DataFeed::read_ahead() {
  if (fault_ || next_ > last_step_) return;
  try {
    ahead_.push_back(read(next_));
    ++next_;
  } catch (const Error& error) {
    fault_ = error.what();
  }
}

DataFeed::MicroBatches DataFeed::take() {
  require(!ahead_.empty(), "the step's data were read");
  MicroBatches batches = std::move(ahead_.front());
  ahead_.pop_front();
  read_ahead();
  return batches;
}

DataFeed::MicroBatches DataFeed::read(Index step) const {
  return read_all(train_, shape_, {.first_sample = samples_after(step - 1), .rank = rank_});
}

DataFeed::MicroBatches DataFeed::read_validation() const {
  return read_all(validation_, validation_shape_, {.rank = rank_});
}

Index DataFeed::targets(Index step) const {
  return train_.targets(samples_after(step - 1), shape_.samples_per_step());
}

Index DataFeed::validation_targets() const {
  return validation_.targets(0, validation_shape_.samples_per_step());
}

Index DataFeed::samples_after(Index step) const {
  return start_samples_ + (step - start_step_) * shape_.samples_per_step();
}

}  // namespace dos::train
