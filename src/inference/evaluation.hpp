// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <utility>
#include <vector>

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

/// Tokens that are evaluated, in a file or in memory, both of which must outlive the object.
class EvaluatedTokens {
 public:
  EvaluatedTokens(const data::TokenFile& file) : name_(file.path()), file_(&file) {}
  /// `name`: of what they were made of, for messages.
  EvaluatedTokens(std::filesystem::path name, std::span<const std::int32_t> tokens)
      : name_(std::move(name)), tokens_(tokens) {}

  [[nodiscard]] const std::filesystem::path& name() const noexcept { return name_; }
  [[nodiscard]] Index size() const { return file_ ? file_->size() : std::ssize(tokens_); }
  /// As data::TokenFile::read().
  void read(Index first, std::span<std::int32_t> out) const;

 private:
  std::filesystem::path name_;
  const data::TokenFile* file_ = nullptr;  ///< null: in memory
  std::span<const std::int32_t> tokens_;
};

/// Windows of one length that are evaluated `batch` at a time.
struct WindowGroup {
  Index first = 0;   ///< token of the file at which they begin
  Index count = 0;   ///< of the windows; a multiple of batch
  Index length = 0;  ///< tokens that each predicts
  Index batch = 0;
};

/// `tokens` tokens in windows of `length`, side by side from the start, each of which
/// predicts every token that follows one of its own: all tokens but the first, once. The
/// groups are whole batches, the windows that fill none, and the last window where it is shorter.
/// Pre: all at least 1.
std::vector<WindowGroup> window_groups(Index tokens, Index length, Index batch);

/// The buffers that evaluate() needs at most; `use` has the context of a window. Pre: tokens >= 2.
Use evaluation_use(const shape::ModelConfig& model, DType type, Index tokens, Index batch,
                   const rt::Session& session);

/// The loss of all tokens but the first, or of those that count by `mask` (of as many;
/// null: all), in windows of model.context tokens, `batch` at a time; lanes are dealt to
/// all workers. `progress` is called now and then with the sums so far. Throws Error for a token
/// outside the vocabulary, when the loss is not finite, and when no token counts.
Evaluation evaluate(TrainedModel& trained, const shape::ModelConfig& model, DType type,
                    const EvaluatedTokens& tokens, const data::MaskFile* mask, Index batch,
                    const std::function<void(const Evaluation&)>& progress);

}  // namespace dos::inference
