// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "watch/run_view.hpp"

namespace dos::watch {

/// Steps whose mean counts as now.
inline constexpr Index kRecentSteps = 20;

/// A line of what there is to say: a name and a text, or, without a text, a curve.
struct Row {
  std::string name;
  std::string text;
  std::vector<double> curve{};
};

/// Which run it is: "mine: small-3m, bf16, ranks 2, scheduler dos".
std::string title_of(const RunView& run);

/// What terminal and page say of the run now, the most important first.
std::vector<Row> summarise(const RunView& run);

}  // namespace dos::watch
