// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "base/types.hpp"

namespace dos::data {

/// llm.c's header of a token file (token_file.hpp).
using TokenHeader = std::array<std::int32_t, 256>;
inline constexpr Index kTokenHeaderBytes = 256 * 4;

struct TokenVariant {
  std::int32_t magic;
  std::int32_t version;
  Index token_bytes;
};
inline constexpr TokenVariant kNarrowTokens{.magic = 20240520, .version = 1, .token_bytes = 2};
inline constexpr TokenVariant kWideTokens{.magic = 20240801, .version = 7, .token_bytes = 4};

/// nanoGPT's files in a folder.
inline constexpr const char* kBareTrain = "train.bin";
inline constexpr const char* kBareVal = "val.bin";

}  // namespace dos::data
