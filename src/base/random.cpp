// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"

#include <bit>
#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace dos {
namespace {

struct Product {
  std::uint32_t high;
  std::uint32_t low;
};

constexpr Product multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(product >> 32U), static_cast<std::uint32_t>(product)};
}

/// Two words to a double in [0, 1) with 53 random bits.
constexpr double to_unit(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32U | low) >> 11U;
  return static_cast<double>(bits) * 0x1.0p-53;
}

}  // namespace

std::array<std::uint32_t, 4> Philox::block(std::uint64_t counter, std::uint64_t stream) const {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  std::array<std::uint32_t, 4> c{
      static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U),
      static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32U)};
  auto k0 = static_cast<std::uint32_t>(key_);
  auto k1 = static_cast<std::uint32_t>(key_ >> 32U);
  for (int round = 0; round < 10; ++round) {
    const Product p0 = multiply(kMultiplier0, c[0]);
    const Product p1 = multiply(kMultiplier1, c[2]);
    c = {p1.high ^ c[1] ^ k0, p1.low, p0.high ^ c[3] ^ k1, p0.low};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
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
