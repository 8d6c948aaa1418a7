// SPDX-License-Identifier: Apache-2.0
#include "platform/neighbours.hpp"

namespace dos::platform {

RankPosition rank_position() {
  return {};
}

std::vector<std::string> exchange_texts(const std::string& mine, Among /*ranks*/) {
  return {mine};
}

}  // namespace dos::platform
