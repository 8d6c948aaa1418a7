// SPDX-License-Identifier: Apache-2.0
#include "train/speculation.hpp"

#include <algorithm>
#include <vector>

#include "codelets/update/update_codelet.hpp"

namespace dos::train {
namespace {

/// Steps that tell how often gradients are clipped: enough for a share, few beside a change of it.
constexpr std::size_t kRemembered = 16;
/// Of the balance, where updates go ahead again: less, so that they do not change with each step.
constexpr double kClearly = 0.75;
/// What updates made again take over what a right guess hides, until one was seen: then the balance
/// is at half of the steps.
constexpr double kAssumedCost = 2;

StepMetrics::Speculation times_of(std::span<const rt::TaskRecord> records) {
  double backward_end = 0;
  for (const rt::TaskRecord& record : records)
    if (record.tag.phase == rt::Phase::kBackward)
      backward_end = std::max(backward_end, record.end_us);
  std::vector<rt::TaskRecord> hidden;
  std::vector<rt::TaskRecord> again;
  for (rt::TaskRecord record : records) {
    if (record.tag.phase != rt::Phase::kUpdate) continue;
    if (codelets::is_redo(*record.codelet)) {
      again.push_back(record);
    } else if (codelets::is_update(*record.codelet) && record.start_us < backward_end) {
      record.end_us = std::min(record.end_us, backward_end);
      hidden.push_back(record);
    }
  }
  return {.redone = std::ssize(again),
          .ms_hidden = rt::busy_ms(hidden, rt::Phase::kUpdate),
          .ms_redone = rt::busy_ms(again, rt::Phase::kUpdate)};
}

/// Of steps one after the other: each halves what those before it count.
void average(std::optional<double>& mean, double value) {
  mean = mean ? (*mean + value) / 2 : value;
}

}  // namespace

Speculation::Speculation(optim::Optimizer& optimizer, const config::Keys::Optim& options)
    : optimizer_(optimizer), adapts_(options.speculate == "auto"), clip_(options.clip) {}

void Speculation::begin_step() {
  if (optimizer_.going_ahead() == 0) return;
  optimizer_.set_goes_ahead(is_on_);
  in_flight_.push_back(is_on_);
}

bool Speculation::pays(double clipped) const {
  const double gain = gain_ms_.value_or(1);
  const double balance = static_cast<double>(kRemembered) * gain;
  return clipped * cost_ms_.value_or(kAssumedCost * gain) <= (is_on_ ? 1 : kClearly) * balance;
}

std::optional<StepMetrics::Speculation> Speculation::see(std::span<const rt::TaskRecord> records,
                                                         double norm) {
  if (optimizer_.going_ahead() == 0) return std::nullopt;
  const bool went_ahead = in_flight_.front();
  in_flight_.pop_front();
  StepMetrics::Speculation seen = times_of(records);
  if (went_ahead) seen.ahead = optimizer_.going_ahead();
  if (went_ahead && !records.empty()) average(gain_ms_, seen.ms_hidden);
  if (seen.redone > 0) average(cost_ms_, seen.ms_redone);
  ++totals_.steps;
  totals_.ahead += went_ahead ? 1 : 0;
  totals_.redone += seen.redone > 0 ? 1 : 0;
  totals_.ms_hidden += seen.ms_hidden;
  totals_.ms_redone += seen.ms_redone;
  last_clipped_.push_back(norm > clip_);
  if (last_clipped_.size() > kRemembered) last_clipped_.pop_front();
  if (adapts_) is_on_ = pays(static_cast<double>(std::ranges::count(last_clipped_, true)));
  return seen;
}

}  // namespace dos::train
