// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

namespace dos {

/// The four words of Philox4x32-10 (random.hpp) for one counter.
struct PhiloxWords {
  std::uint32_t at[4];
};

DOS_HD static PhiloxWords philox_words(std::uint64_t key, std::uint64_t counter,
                                       std::uint64_t stream) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  PhiloxWords c{{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U),
                 static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32U)}};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{kMultiplier0} * c.at[0];
    const std::uint64_t p1 = std::uint64_t{kMultiplier1} * c.at[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32U) ^ c.at[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32U) ^ c.at[3] ^ k1, static_cast<std::uint32_t>(p0)}};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

/// Two words to a double in [0, 1) with 53 random bits.
DOS_HD static double to_unit(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32U | low) >> 11U;
  return static_cast<double>(bits) * 0x1.0p-53;
}

}  // namespace dos
