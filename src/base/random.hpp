// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/types.hpp"

namespace dos {

/// Counter-based generator Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
/// 3", SC'11). A value depends only on (key, counter), so any worker can produce any part of a
/// stream.
class Philox {
 public:
  explicit constexpr Philox(std::uint64_t key) : key_(key) {}

  /// The four 32-bit words of block `counter` of stream `stream`.
  [[nodiscard]] std::array<std::uint32_t, 4> block(std::uint64_t counter,
                                                   std::uint64_t stream = 0) const;

  /// Uniform in [0, 1), 53 bits; element `index` of the stream.
  [[nodiscard]] double uniform(std::uint64_t index, std::uint64_t stream = 0) const;

  /// Standard normal by Box-Muller; element `index` of the stream.
  [[nodiscard]] float normal(std::uint64_t index, std::uint64_t stream = 0) const;

 private:
  std::uint64_t key_;
};

/// A pseudo-random permutation of 0 .. size-1 that needs no memory: a four-round Feistel network
/// over Philox, with cycle walking. Pre: size > 0.
class Permutation {
 public:
  Permutation(Index size, std::uint64_t key);

  /// Where `index` (0 <= index < size) goes.
  [[nodiscard]] Index operator()(Index index) const;

 private:
  [[nodiscard]] std::uint64_t feistel(std::uint64_t value) const;

  Index size_;
  Philox philox_;
  unsigned half_bits_;
};

/// 64-bit FNV-1a of a name: turns a tensor's name into its random stream.
std::uint64_t stream_of(std::string_view name);

}  // namespace dos
