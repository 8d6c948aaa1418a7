// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "calibration/results.hpp"
#include "perfmodels/machine_keys.hpp"

namespace dos::calibration {

/// The key of a machine file. Pre: there is one of that name.
const perfmodels::Key& key_of(const std::string& name);

/// "tier.nvme.link.read": a number of a tier.
struct TierNumber {
  std::string tier;
  const perfmodels::TierKey& key;
};
/// Nothing for a key that is not of a tier. Pre: a tier's key of that name.
std::optional<TierNumber> tier_number(const std::string& name);

/// "52.1 GB/s": a value in base units, in the unit in which the key is written.
std::string in_unit(const std::string& key, double value);

/// One line a result: key, value, unit, spread, rounds, what was measured.
std::string table(const std::vector<Result>& results);

/// What the calibration found beside that of `date`, for people; one line a change.
std::string changes_text(const std::vector<Change>& changes, const std::string& date);

}  // namespace dos::calibration
