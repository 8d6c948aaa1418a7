// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/dataset.hpp"
#include "dist/exchange.hpp"
#include "train/config.hpp"

namespace dos::train {

/// An Error that all ranks have found together: one of them may report it for all.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// What a rank brings to the start of a run.
struct RankStart {
  std::string error{};         ///< why this rank cannot start; the rest is then empty
  nlohmann::json agreement{};  ///< must be equal on all ranks
};

/// Everything that decides what the ranks compute together: version and revision of the program,
/// configuration (but what may differ between nodes: workers, devices, where the data lie, where
/// updates run), model, data, and the checkpoint's manifest or null.
nlohmann::json agreement_of(const TrainConfig& config, const models::ModelConfig& model,
                            const data::Dataset& dataset, const nlohmann::json& checkpoint);

/// Why ranks with these starts cannot train together: the first rank that has an error, or differs
/// from rank 0, with what differs; "" when they can.
std::string find_disagreement(const std::vector<RankStart>& starts);

/// Exchanges the starts. Throws AgreedError on every rank when one cannot start or differs.
void agree(dist::Exchange& exchange, const RankStart& mine);

}  // namespace dos::train
