// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/verification.hpp"
#include "launch/preparation.hpp"
#include "launch/rank_place.hpp"

namespace dos::launch {

/// Starts to read the data set from end to end, on the first rank of each node; null elsewhere, and
/// for a dry run without --verify. Says on rank 0 when damage cannot be noticed.
std::unique_ptr<data::Verification> start_verification(const LaunchOptions& options,
                                                       const Preparation& prepared,
                                                       const RankPlace& place);

/// Waits for it: to the end with --verify and where nothing is known of the tokens' range, else for
/// a moment, in which files that are not large are read. Throws Error when the data are bad, on all
/// ranks. A signal that stops the run ends the wait.
void wait_for_verification(const LaunchOptions& options, const Preparation& prepared,
                           const data::Verification* verification, ranks::Exchange* exchange);

}  // namespace dos::launch
