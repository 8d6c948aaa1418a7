// SPDX-License-Identifier: Apache-2.0
#include "inference/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "base/target.hpp"
#include "models/decoder.hpp"

namespace dos::inference {
namespace {

/// The step number under which tasks are recorded.
constexpr Index kNoStep = 0;

/// Batches whose tasks wait at a time: workers have some when lanes end at different times.
constexpr Index kBatchesAhead = 4;

shape::RunShape run_shape(Index batch, DType type, const rt::Session& session) {
  const shape::LaneWorkers workers = models::lane_workers(session);
  return {.batch = batch,
          .lanes = std::min(batch, workers.count),
          .training = false,
          .logits_rows = workers.logits_rows(),
          .type = type};
}

double sum_of(const models::Decoder& decoder) {
  double sum = 0;
  for (const rt::Handle* lane : decoder.losses())
    sum += rt::HostAccess(*lane, rt::Mode::kRead).as<const double>().front();
  return sum;
}

/// tokens[group.batch, group.length + 1] of the windows from number `window` on.
std::vector<std::int32_t> read_batch(const EvaluatedTokens& from, const data::MaskFile* mask,
                                     const WindowGroup& group, Index window, Index vocabulary) {
  const auto row = static_cast<std::size_t>(group.length + 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(group.batch) * row);
  for (Index i = 0; i < group.batch; ++i) {
    const Index first = group.first + (window + i) * group.length;
    const auto part = std::span(tokens).subspan(static_cast<std::size_t>(i) * row, row);
    from.read(first, part);
    const auto bad = std::ranges::find_if(part, [&](std::int32_t token) {
      return static_cast<std::uint32_t>(token) >= static_cast<std::uint64_t>(vocabulary);
    });
    if (bad != part.end())
      fail(
          "{}: token {} at position {} is outside the model's vocabulary of {}: give tokens of the "
          "tokenizer that the model was trained with",
          from.name().string(), static_cast<std::uint32_t>(*bad), first + (bad - part.begin()),
          vocabulary);
    if (mask != nullptr) mask->apply(first, part);
  }
  return tokens;
}

/// The tokens of a batch that are predicted, and count.
Index count_targets(std::span<const std::int32_t> tokens, Index length) {
  Index targets = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (static_cast<Index>(i) % (length + 1) != 0 && is_target(tokens[i])) ++targets;
  return targets;
}

}  // namespace

void EvaluatedTokens::read(Index first, std::span<std::int32_t> out) const {
  if (file_ != nullptr) {
    file_->read(first, out);
    return;
  }
  require(first >= 0 && first + std::ssize(out) <= size(), "tokens that are there");
  std::ranges::copy(tokens_.subspan(static_cast<std::size_t>(first), out.size()), out.begin());
}

std::vector<WindowGroup> window_groups(Index tokens, Index length, Index batch) {
  require(tokens >= 1 && length >= 1 && batch >= 1, "sizes of at least 1");
  // The first token follows none.
  const Index predicted = tokens - 1;
  const Index windows = predicted / length;
  const Index in_batches = windows / batch * batch;
  const WindowGroup all[] = {
      {0, in_batches, length, batch},
      {in_batches * length, windows - in_batches, length, windows - in_batches},
      {windows * length, predicted % length == 0 ? 0 : 1, predicted % length, 1}};
  std::vector<WindowGroup> groups;
  std::ranges::copy_if(all, std::back_inserter(groups),
                       [](const WindowGroup& group) { return group.count > 0; });
  return groups;
}

Use evaluation_use(const shape::ModelConfig& model, DType type, Index tokens, Index batch,
                   const rt::Session& session) {
  // The first group is the largest.
  const WindowGroup group = window_groups(tokens, model.context, batch).front();
  Use use{
      .model = model, .run = run_shape(group.batch, type, session), .workers = session.workers()};
  use.model.context = group.length;
  return use;
}

Evaluation evaluate(TrainedModel& trained, const shape::ModelConfig& model, DType type,
                    const EvaluatedTokens& tokens, const data::MaskFile* mask, Index batch,
                    const std::function<void(const Evaluation&)>& progress) {
  rt::Submitter& submitter = trained.submitter();
  submitter.set_tag({rt::Phase::kValidation, kNoStep});
  Evaluation done;
  for (const WindowGroup& group : window_groups(tokens.size(), model.context, batch)) {
    shape::ModelConfig windowed = model;
    windowed.context = group.length;
    const double before = done.loss;
    models::Decoder decoder(trained.session(), trained.parameters(), windowed,
                            run_shape(group.batch, type, trained.session()));
    for (Index window = 0; window < group.count; window += group.batch) {
      const std::vector<std::int32_t> read =
          read_batch(tokens, mask, group, window, model.vocabulary);
      decoder.evaluate(submitter, read);
      done.tokens += count_targets(read, group.length);
      done.seen += group.batch * group.length;
      const bool is_last = window + group.batch == group.count;
      if (!is_last && window / group.batch % kBatchesAhead != kBatchesAhead - 1) continue;
      submitter.profile().take(kNoStep);
      done.loss = before + sum_of(decoder);
      expect(std::isfinite(done.loss),
             "{}: the loss of a token before {} is not finite: the model is of a run that "
             "diverged, use an earlier checkpoint",
             tokens.name().string(), group.first + (window + group.batch) * group.length);
      if (done.tokens > 0) progress(done);
    }
  }
  expect(done.tokens > 0,
         "{}: no token counts: give a data set with conversations in which the assistant answers",
         tokens.name().string());
  return done;
}

}  // namespace dos::inference
