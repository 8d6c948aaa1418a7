// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <charconv>
#include <new>

namespace dos {

Checksum::Checksum() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  reset();
}

void Checksum::update(std::span<const std::byte> piece) {
  if (!piece.empty()) XXH3_64bits_update(state_.get(), piece.data(), piece.size());
}

std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(state_.get());
}

void Checksum::reset() {
  XXH3_64bits_reset(state_.get());
}

void Checksum::Free::operator()(XXH3_state_s* state) const noexcept {
  XXH3_freeState(state);
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hex_text(std::uint64_t word) {
  return fmt::format("{:016x}", word);
}

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t word = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, word, 16);
  if (text.size() != 16 || error != std::errc{} || stop != end) return std::nullopt;
  return word;
}

}  // namespace dos
