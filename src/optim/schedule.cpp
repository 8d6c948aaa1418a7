// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  expect_known(options.schedule);
  for (const Schedule& schedule : kSchedules)
    if (options.schedule == schedule.name) decay_ = schedule.decay;
  expect_in(kPeaks, "optim.lr", options.peak);
  expect_in(kFinalRatios, "optim.final_lr_ratio", options.final_ratio);
  expect_in(kWarmups, "optim.warmup", options.warmup);
}

void LearningRate::expect_known(const std::string& schedule) {
  const std::vector<std::string> known = known_schedules();
  expect(std::ranges::find(known, schedule) != known.end(),
         "unknown optim.schedule '{}'{}; known: {}", schedule, did_you_mean(schedule, known),
         fmt::join(known, ", "));
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
