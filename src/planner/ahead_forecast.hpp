// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/quantity.hpp"
#include "base/types.hpp"

/// Updates that go ahead of the clip factor: optim.speculate, docs/speculation.md.
namespace dos::planner {

struct Request;
struct Forecast;

/// What they come to. None goes ahead where `subgroups` is 0.
struct AheadForecast {
  Index subgroups = 0;
  units::Params params{0};
  units::Bytes banks{0};      ///< host memory of a rank for their second banks
  units::Seconds waiting{0};  ///< a step, if all waited for the norm and had one bank
  units::Seconds step{0};

  /// Of `waiting`; negative where second banks cost more, 0 where none goes ahead.
  [[nodiscard]] units::Seconds hidden() const { return waiting - step; }
};

/// Whether some may go ahead: as train_gpt has it, before memory is looked at. Throws Error where
/// they are asked for and cannot.
bool may_go_ahead(const Request& request);

/// Has as many go ahead as train_gpt would (fit::choose_ahead()), and counts their banks: by
/// subgroup, whether it does; empty: none does, and nothing changes. `waiting`: the same where none
/// does. Pre: plan and memory of the forecast are there.
std::vector<bool> let_go_ahead(const Request& request, const Forecast& waiting, Forecast& result);

}  // namespace dos::planner
