// SPDX-License-Identifier: Apache-2.0
#include "storage/fallback.hpp"

#include <atomic>

namespace dos::storage {
namespace {

std::atomic<log::Level> level_of_fallbacks = log::Level::kInfo;

}  // namespace

void say_fallbacks_at(log::Level level) {
  level_of_fallbacks = level;
}

log::Level fallback_level() {
  return level_of_fallbacks;
}

}  // namespace dos::storage
