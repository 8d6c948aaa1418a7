// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "data/dataset.hpp"
#include "data/mask_file.hpp"
#include "data/token_file.hpp"

namespace dos::data {

struct LoaderConfig {
  Index context = 0;     ///< tokens a sequence feeds to the model
  Index vocabulary = 0;  ///< the model's: tokens must be smaller
  std::uint64_t seed = 0;
  bool shuffle = true;  ///< false: windows in file order
};

/// How many samples one step takes, all positive. Each step takes the next accumulate * ranks *
/// batch samples, micro-batch by micro-batch, in it rank by rank, in it sequence by sequence. So
/// the samples of a step depend on the product alone: 4 ranks train on what 1 rank with accumulate
/// * 4 trains on.
struct BatchShape {
  Index batch = 0;  ///< sequences of a micro-batch on one rank
  Index accumulate = 1;
  Index ranks = 1;

  [[nodiscard]] Index samples_per_step() const { return accumulate * ranks * batch; }
};

/// One micro-batch of one rank; all count from 0.
struct BatchPosition {
  Index first_sample = 0;  ///< of the step: how many samples the steps before it took
  Index micro_batch = 0;
  Index rank = 0;
};

/// The global index of sample `sequence` of a micro-batch. Pre: a valid shape, and every part of
/// the position inside it.
Index sample_index(const BatchShape& shape, const BatchPosition& position, Index sequence);

/// The samples of a micro-batch, each read by `sample`: tokens [batch, context + 1].
std::vector<std::int32_t> read_micro_batch(
    Index context, const BatchShape& shape, const BatchPosition& position,
    const std::function<void(Index index, std::span<std::int32_t> out)>& sample);

/// Cuts a split into windows of `context` tokens that do not overlap, and deals them out. A sample
/// is a window and the token behind it. Where a mask says which tokens count as targets, windows
/// without one are left out. Sample i is window `i mod windows()` of epoch
/// `i / windows()`, through a permutation keyed by (seed, epoch) where the loader shuffles. So a
/// sample is a pure function of (seed, index): there is no state to save, and any rank or thread
/// may ask for any sample. At most `context` last tokens of the file are never read.
class Loader {
 public:
  /// Throws Error when context or vocabulary is not positive, or the file has fewer than
  /// context + 1 tokens. Reads all of the mask, if there is one; throws Error when no window has a
  /// target, too. Pre: the mask is as long as the file.
  Loader(TokenFile file, const LoaderConfig& config, std::optional<MaskFile> mask = std::nullopt);

  /// The number of windows that are dealt out, at least 1: the samples of one epoch.
  [[nodiscard]] Index windows() const noexcept { return windows_; }

  /// Writes the context + 1 elements of a sample (base/target.hpp): out[0 .. context-1] is the
  /// input, out[1 .. context] the target. Pre: index >= 0 and out has that size. Throws Error,
  /// naming file, position and value, for a token outside the vocabulary, or when the file was cut
  /// short.
  void sample(Index index, std::span<std::int32_t> out) const;

  /// The targets of a sample that count: without a mask, `context`. Pre: index >= 0.
  [[nodiscard]] Index targets(Index index) const;

  [[nodiscard]] Index context() const noexcept { return config_.context; }
  [[nodiscard]] bool has_mask() const noexcept { return mask_.has_value(); }

  /// The samples of a micro-batch: tokens [batch, context + 1]. As for sample() and
  /// sample_index().
  [[nodiscard]] std::vector<std::int32_t> micro_batch(const BatchShape& shape,
                                                      const BatchPosition& position) const;

 private:
  /// A window with a target.
  struct Counted {
    Index window = 0;
    Index targets = 0;
  };
  void find_targets();
  [[nodiscard]] Index place_of(Index index) const;

  TokenFile file_;
  LoaderConfig config_;
  std::optional<MaskFile> mask_;
  std::vector<Counted> counted_;  ///< in the order of the file; of a mask
  Index windows_ = 0;
};

/// A part of a data set, with its mask. Throws Error as Loader's constructor does, and when the
/// conversations were laid into windows of another context.
enum class Split { kTrain, kValidation };
Loader open_split(const Dataset& dataset, Split split, const LoaderConfig& config);

}  // namespace dos::data
