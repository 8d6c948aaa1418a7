// SPDX-License-Identifier: Apache-2.0
#include "storage/observer.hpp"

#include <array>

namespace dos::storage {

const char* name_of(Activity activity) {
  constexpr std::array kNames{"read", "write", "flush", "copy", "hold", "wait"};
  return kNames[static_cast<std::size_t>(activity)];
}

const char* name_of(Purpose purpose) {
  constexpr std::array kNames{"", "checkpoint", "checkpoint copy", "states", "activations"};
  return kNames[static_cast<std::size_t>(purpose)];
}

}  // namespace dos::storage
