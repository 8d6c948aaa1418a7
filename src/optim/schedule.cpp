// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "base/nearest.hpp"

namespace dos::optim {
namespace {

double constant(double /*progress*/) {
  return 1.0;
}
double linear(double progress) {
  return 1.0 - progress;
}
double cosine(double progress) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

struct Schedule {
  const char* name;
  double (*decay)(double);
};

constexpr std::array kSchedules{Schedule{"constant", &constant}, Schedule{"linear", &linear},
                                Schedule{"cosine", &cosine}};

}  // namespace

LearningRate::LearningRate(const Options& options) : options_(options), decay_(nullptr) {
  for (const Schedule& schedule : kSchedules)
    if (options.schedule == schedule.name) decay_ = schedule.decay;
  const std::vector<std::string> known = known_schedules();
  expect(decay_ != nullptr, "unknown optim.schedule '{}'{}; known: {}", options.schedule,
         did_you_mean(options.schedule, known), fmt::join(known, ", "));
  expect(options.peak > 0 && std::isfinite(options.peak), "optim.lr must be positive, got {}",
         options.peak);
  expect(options.final_ratio >= 0 && options.final_ratio <= 1,
         "optim.final_lr_ratio must lie in [0, 1], got {}", options.final_ratio);
  expect(options.warmup >= 0, "optim.warmup must not be negative, got {}", options.warmup);
}

double LearningRate::at(Index step) const {
  require(step >= 1, "steps count from 1");
  const Index before = step - 1;
  if (before < options_.warmup)
    return options_.peak * static_cast<double>(step) / static_cast<double>(options_.warmup);
  const Index left = std::max<Index>(1, options_.steps - options_.warmup);
  const double progress =
      std::min(1.0, static_cast<double>(before - options_.warmup) / static_cast<double>(left));
  const double floor = decay_ == &constant ? 1.0 : options_.final_ratio;
  return options_.peak * (floor + (1.0 - floor) * decay_(progress));
}

std::vector<std::string> LearningRate::known_schedules() {
  std::vector<std::string> names;
  for (const Schedule& schedule : kSchedules) names.emplace_back(schedule.name);
  return names;
}

}  // namespace dos::optim
