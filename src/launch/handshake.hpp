// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "data/sources.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/exchange.hpp"
#include "train/run.hpp"

namespace dos::launch {

/// What a rank brings to the start of a run.
struct RankStart {
  std::string error{};         ///< why this rank cannot start; the rest is then empty
  nlohmann::json agreement{};  ///< must be equal on all ranks
};

/// Everything that decides what the ranks compute together: version and revision of the program,
/// configuration (but what may differ between nodes: workers, devices, where the data lie, where
/// updates run), model, data, and the checkpoint's manifest or null.
nlohmann::json agreement_of(const train::Run& run, const data::Sources& sources,
                            const nlohmann::json& checkpoint);

/// Why ranks with these starts cannot train together: the first rank that has an error, or differs
/// from rank 0, with what differs; "" when they can.
std::string find_disagreement(const std::vector<RankStart>& starts);

/// Exchanges the starts. Throws ranks::AgreedError on every rank when one cannot start or differs.
void agree(ranks::Exchange& exchange, const RankStart& mine);

}  // namespace dos::launch
