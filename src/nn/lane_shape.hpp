// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::nn {

/// Tokens that a pass works on: of whole sequences, or of one sequence that goes on.
struct LaneShape {
  Index sequences;
  Index context;    ///< tokens of each
  Index first = 0;  ///< position of the first; one sequence has keys and values of those before

  [[nodiscard]] Index tokens() const { return sequences * context; }
};

}  // namespace dos::nn
