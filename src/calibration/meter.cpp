// SPDX-License-Identifier: Apache-2.0
#include "calibration/meter.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace dos::calibration {

double seconds_of(const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Meter::run(const Action& submit) const {
  const double seconds = seconds_of([&] {
    submit();
    session().wait_all();
  });
  submitter_.profile().take(submitter_.tag().step);
  return seconds;
}

Summary Meter::rate(double amount, const Action& submit) const {
  run(submit);  // loads kernels, allocates on devices
  constexpr double kMostRuns = 1e4;
  const double runs = std::clamp(std::ceil(effort_.least_seconds / run(submit)), 1.0, kMostRuns);
  return repeat(effort_, [&] {
    const double seconds = run([&] {
      for (double done = 0; done < runs; ++done) submit();
    });
    return amount * runs / seconds;
  });
}

}  // namespace dos::calibration
