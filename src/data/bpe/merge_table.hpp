// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dos::data::bpe {

/// What a merge makes of two tokens beside each other.
struct Merge {
  std::uint32_t rank = 0;  ///< lower ones first
  std::int32_t token = 0;
};

/// From two tokens to their merge; built once, then read only.
class PairTable {
 public:
  explicit PairTable(std::size_t most);

  /// A pair that is there already takes the new value.
  void set(std::int32_t left, std::int32_t right, const Merge& merge);
  [[nodiscard]] const Merge* find(std::int32_t left, std::int32_t right) const;

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t pair = kEmpty;
    Merge merge;
  };
  [[nodiscard]] std::size_t slot_of(std::uint64_t pair) const;

  std::vector<Slot> slots_;  ///< a power of two
};

/// The model of a byte-level BPE: pieces of text to tokens. Tokens are given as the bytes that they
/// stand for. Immutable after construction.
class MergeTable {
 public:
  struct Description {
    std::vector<std::pair<std::string, std::int32_t>> vocabulary;  ///< no bytes twice
    std::vector<std::pair<std::string, std::string>> merges;       ///< by rank
    bool ignore_merges = false;  ///< a piece that is a token is that token
  };

  /// Throws Error, starting with `place`, when a byte has no token, or a merge speaks of bytes that
  /// are no token.
  MergeTable(Description description, const std::string& place);

  /// Appends the tokens of a piece that is not empty.
  void append(std::string_view piece, std::vector<std::int32_t>& tokens) const;
  [[nodiscard]] std::int32_t token_of(unsigned char byte) const { return of_bytes_[byte]; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view bytes) const {
      return std::hash<std::string_view>()(bytes);
    }
  };
  struct Entry {
    std::int32_t token = 0;
    bool is_whole = false;  ///< the tokens of these bytes are this token alone
  };

  void merge(std::string_view piece, std::vector<std::int32_t>& tokens) const;

  std::uint64_t number_;  ///< of this table, in the process
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_;
  PairTable pairs_;
  std::vector<std::int32_t> of_bytes_;
};

}  // namespace dos::data::bpe
