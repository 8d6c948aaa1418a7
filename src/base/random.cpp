// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"

#include <bit>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "base/philox.hpp"

namespace dos {

std::array<std::uint32_t, 4> Philox::block(std::uint64_t counter, std::uint64_t stream) const {
  const PhiloxWords words = philox_words(key_, counter, stream);
  return {words.at[0], words.at[1], words.at[2], words.at[3]};
}

double Philox::uniform(std::uint64_t index, std::uint64_t stream) const {
  const auto words = block(index / 2, stream);
  return index % 2 == 0 ? to_unit(words[0], words[1]) : to_unit(words[2], words[3]);
}

float Philox::normal(std::uint64_t index, std::uint64_t stream) const {
  const auto words = block(index / 2, stream);
  // 1 - u is in (0, 1]: the logarithm stays finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - to_unit(words[0], words[1])));
  const double angle = 2.0 * std::numbers::pi * to_unit(words[2], words[3]);
  return static_cast<float>(radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

Permutation::Permutation(Index size, std::uint64_t key) : size_(size), philox_(key), half_bits_(1) {
  require(size > 0, "a permutation needs at least one element");
  const auto bits = static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(size - 1)));
  if (bits > 2) half_bits_ = (bits + 1) / 2;
}

Index Permutation::operator()(Index index) const {
  require(index >= 0 && index < size_, "index outside the permutation");
  auto value = static_cast<std::uint64_t>(index);
  // The network permutes 2^(2 half_bits) < 4 * size values: walk until the value falls inside.
  do value = feistel(value);
  while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<Index>(value);
}

std::uint64_t Permutation::feistel(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < 4; ++round) {
    const std::uint64_t mixed = left ^ (philox_.block(right, round)[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace dos
