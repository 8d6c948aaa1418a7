// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "data/mask_file.hpp"
#include "data/token_file.hpp"
#include "inference/trained_model.hpp"

namespace dos::inference {

/// Sums over predicted tokens.
struct Evaluation {
  double loss = 0;   ///< nats, of all together
  Index tokens = 0;  ///< that were predicted, and count
  Index seen = 0;    ///< that were predicted

  [[nodiscard]] double mean() const { return loss / static_cast<double>(tokens); }
};

/// Windows of one length that are evaluated `batch` at a time.
struct WindowGroup {
  Index first = 0;   ///< token of the file at which they begin
  Index count = 0;   ///< of the windows; a multiple of batch
  Index length = 0;  ///< tokens that each predicts
  Index batch = 0;
};

/// A file of `tokens` tokens in windows of `length`, side by side from its start, each of which
/// predicts every token that follows one of its own: all tokens but the file's first, once. The
/// groups are whole batches, the windows that fill none, and the last window where it is shorter.
/// Pre: all at least 1.
std::vector<WindowGroup> window_groups(Index tokens, Index length, Index batch);

/// The buffers that evaluate() needs at most; `use` has the context of a window. Pre: tokens >= 2.
Use evaluation_use(const shape::ModelConfig& model, DType type, Index tokens, Index batch,
                   const rt::Session& session);

/// The loss of every token of the file but the first, or of those that count by `mask` (as long as
/// the file; null: all), in windows of model.context tokens, `batch` at a time; lanes are dealt to
/// all workers. `progress` is called now and then with the sums so far. Throws Error for a token
/// outside the vocabulary, when the loss is not finite, and when no token counts.
Evaluation evaluate(TrainedModel& trained, const shape::ModelConfig& model, DType type,
                    const data::TokenFile& file, const data::MaskFile* mask, Index batch,
                    const std::function<void(const Evaluation&)>& progress);

}  // namespace dos::inference
