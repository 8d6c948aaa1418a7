// SPDX-License-Identifier: Apache-2.0
#include "train/speculation.hpp"

#include <algorithm>

#include "codelets/update/update_codelet.hpp"

namespace dos::train {
namespace {

/// Steps that tell how often gradients are clipped: enough for a share, few beside a change of it.
constexpr std::size_t kRemembered = 16;
/// Clipped ones of them above which updates stop to go ahead, and up to which they do again. An
/// update ahead saves its time if it is right, and costs as much of the workers if it is not, so
/// the balance is at half of the steps.
constexpr std::ptrdiff_t kMostClipped = 8;
constexpr std::ptrdiff_t kFewClipped = 6;

}  // namespace

Speculation::Speculation(optim::Optimizer& optimizer, const config::Keys::Optim& options)
    : optimizer_(optimizer), adapts_(options.speculate == "auto"), clip_(options.clip) {}

void Speculation::begin_step() {
  if (optimizer_.going_ahead() == 0) return;
  optimizer_.set_goes_ahead(is_on_);
  in_flight_.push_back(is_on_);
}

std::optional<StepMetrics::Speculation> Speculation::see(std::span<const rt::TaskRecord> records,
                                                         double norm) {
  if (optimizer_.going_ahead() == 0) return std::nullopt;
  const bool went_ahead = in_flight_.front();
  in_flight_.pop_front();
  last_clipped_.push_back(norm > clip_);
  if (last_clipped_.size() > kRemembered) last_clipped_.pop_front();
  const auto clipped = std::ranges::count(last_clipped_, true);
  if (adapts_) is_on_ = clipped <= (is_on_ ? kMostClipped : kFewClipped);
  return StepMetrics::Speculation{
      .ahead = went_ahead ? optimizer_.going_ahead() : 0,
      .redone = std::ranges::count_if(records, [](const rt::TaskRecord& record) {
        return codelets::is_redo(*record.codelet);
      })};
}

}  // namespace dos::train
