// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.hpp"
#include "data/mixture.hpp"
#include "data/sources.hpp"
#include "train/run.hpp"

namespace dos::train {

/// The samples of a rank's steps, read before they are needed: data that cannot be read, or that
/// are not what the model was built for, are known when the steps before can still be finished.
class DataFeed {
 public:
  using MicroBatches = std::vector<std::vector<std::int32_t>>;

  /// Throws Error when the data do not suit the model.
  DataFeed(const data::Sources& sources, const Run& run);

  /// The next step is step + 1, and `samples` were trained on before it. Reads train.run_ahead
  /// steps. Throws Error when the first cannot be read.
  void start(Index step, Index samples);

  /// The micro-batches of the next step; reads those of the step run_ahead further. When that
  /// fails, run_ahead - 1 more can be taken. Pre: they were read.
  MicroBatches take();

  /// Why a step to come cannot be read; nullopt while all can.
  [[nodiscard]] const std::optional<std::string>& fault() const { return fault_; }

  /// Of any step; throws Error.
  [[nodiscard]] MicroBatches read(Index step) const;
  /// Validation reads the same windows every time. Throws Error.
  [[nodiscard]] MicroBatches read_validation() const;

  [[nodiscard]] const data::BatchShape& shape() const { return shape_; }
  /// Tokens of the step, on all ranks, whose prediction counts in its loss; of validation.
  [[nodiscard]] Index targets(Index step) const;
  [[nodiscard]] Index validation_targets() const;
  /// Whether the data say which tokens count: else all do.
  [[nodiscard]] bool has_mask() const { return train_.has_mask(); }
  /// Samples that the run has trained on when `step` is done.
  [[nodiscard]] Index samples_after(Index step) const;

 private:
  void read_ahead();

  data::Mixture train_;
  data::Mixture validation_;
  data::BatchShape shape_;
  data::BatchShape validation_shape_;
  Index rank_;
  Index depth_;
  Index last_step_;
  Index start_step_ = 0;
  Index start_samples_ = 0;
  Index next_ = 0;  ///< the first step that was not read
  std::deque<MicroBatches> ahead_;
  std::optional<std::string> fault_;
};

}  // namespace dos::train
