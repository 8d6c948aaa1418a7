// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "base/types.hpp"
#include "ranks/tags.hpp"

namespace dos::ranks {

/// Bytes by kind of message.
struct Traffic {
  std::array<Index, kKinds> bytes{};

  Index& operator[](Kind kind) { return bytes[static_cast<std::size_t>(kind)]; }
  Index operator[](Kind kind) const { return bytes[static_cast<std::size_t>(kind)]; }
};

}  // namespace dos::ranks
