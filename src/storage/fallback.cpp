// SPDX-License-Identifier: Apache-2.0
#include "storage/fallback.hpp"

#include <mutex>
#include <utility>

namespace dos::storage {
namespace {

struct Voice {
  std::mutex mutex;  ///< of what follows
  log::Level level = log::Level::kInfo;
  std::string who;
};

Voice& voice() {
  static Voice one;
  return one;
}

}  // namespace

void say_fallbacks_at(log::Level level, std::string who) {
  const std::lock_guard lock(voice().mutex);
  voice().level = level;
  voice().who = std::move(who);
}

void say_fallback(const std::string& what) {
  const std::lock_guard lock(voice().mutex);
  log::format(voice().level, "{}{}", voice().who, what);
}

}  // namespace dos::storage
