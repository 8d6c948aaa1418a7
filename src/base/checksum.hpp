// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace dos {

/// The xxh3-64 checksum of bytes that arrive in pieces; how they are cut does not change the value.
class Checksum {
 public:
  Checksum();

  void update(std::span<const std::byte> piece);
  /// Of everything since construction or reset().
  [[nodiscard]] std::uint64_t value() const;
  void reset();

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

/// The xxh3-64 checksum of bytes that lie in one piece.
std::uint64_t checksum_of(std::span<const std::byte> bytes);

/// 16 lower-case hexadecimal digits, as `xxhsum -H3` prints them.
std::string hex_text(std::uint64_t word);

/// The inverse of hex_text(); nullopt for anything else.
std::optional<std::uint64_t> parse_hex(std::string_view text);

}  // namespace dos
