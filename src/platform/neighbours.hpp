// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace dos::platform {

/// Where this rank is among all and among those that share its node's memory. Rank 0 of 1 without
/// MPI, or before it is initialised.
struct RankPosition {
  Index rank = 0;
  Index size = 1;
  Index local_rank = 0;
  Index local_size = 1;
};

/// Collective.
RankPosition rank_position();

enum class Among : std::uint8_t { kAll, kNode };

/// The texts of all ranks, in their order, on every one of them. Collective.
std::vector<std::string> exchange_texts(const std::string& mine, Among ranks);

}  // namespace dos::platform
