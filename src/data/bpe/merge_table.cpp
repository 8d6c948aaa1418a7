// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/merge_table.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <span>

#include "base/error.hpp"
#include "base/json.hpp"
#include "data/bpe/byte_characters.hpp"

namespace dos::data::bpe {
namespace {

constexpr std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32U | static_cast<std::uint32_t>(right);
}

/// A piece that is being merged: a list of tokens, and the merges that may come next.
class Merging {
 public:
  void start(std::size_t length) {
    symbols_.resize(length);
    candidates_.clear();
    for (std::size_t i = 0; i < length; ++i)
      symbols_[i] = {.before = static_cast<std::int64_t>(i) - 1,
                     .behind = i + 1 < length ? static_cast<std::int64_t>(i) + 1 : kNone};
  }
  void set(std::size_t at, std::int32_t token) { symbols_[at].token = token; }

  void run(const PairTable& pairs) {
    for (std::size_t i = 0; i + 1 < symbols_.size(); ++i)
      consider(pairs, static_cast<std::int64_t>(i));
    while (!candidates_.empty()) {
      std::ranges::pop_heap(candidates_, later);
      const Candidate next = candidates_.back();
      candidates_.pop_back();
      if (still_holds(next)) apply(pairs, next);
    }
  }

  void append_to(std::vector<std::int32_t>& tokens) const {
    for (std::int64_t i = 0; i != kNone; i = at(i).behind) tokens.push_back(at(i).token);
  }

 private:
  static constexpr std::int64_t kNone = -1;
  static constexpr std::int32_t kGone = -1;
  struct Symbol {
    std::int32_t token = 0;
    std::int64_t before = kNone;
    std::int64_t behind = kNone;
  };
  struct Candidate {
    Merge merge;
    std::int64_t left = 0;
    std::int32_t left_token = 0;
    std::int32_t right_token = 0;
  };
  /// Of equal rank, the left one comes first.
  static bool later(const Candidate& a, const Candidate& b) {
    return std::pair(a.merge.rank, a.left) > std::pair(b.merge.rank, b.left);
  }

  [[nodiscard]] const Symbol& at(std::int64_t i) const {
    return symbols_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] Symbol& at(std::int64_t i) { return symbols_[static_cast<std::size_t>(i)]; }

  void consider(const PairTable& pairs, std::int64_t left) {
    if (left == kNone || at(left).behind == kNone) return;
    const std::int32_t a = at(left).token;
    const std::int32_t b = at(at(left).behind).token;
    const Merge* merge = pairs.find(a, b);
    if (merge == nullptr) return;
    candidates_.push_back({.merge = *merge, .left = left, .left_token = a, .right_token = b});
    std::ranges::push_heap(candidates_, later);
  }

  [[nodiscard]] bool still_holds(const Candidate& candidate) const {
    const Symbol& left = at(candidate.left);
    return left.token == candidate.left_token && left.behind != kNone &&
           at(left.behind).token == candidate.right_token;
  }

  void apply(const PairTable& pairs, const Candidate& candidate) {
    Symbol& left = at(candidate.left);
    Symbol& right = at(left.behind);
    left.token = candidate.merge.token;
    left.behind = right.behind;
    right.token = kGone;
    if (left.behind != kNone) at(left.behind).before = candidate.left;
    consider(pairs, left.before);
    consider(pairs, candidate.left);
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;
};

/// The tokens of short pieces that a thread has met lately: texts repeat their words. A slot is
/// taken over by the next piece that falls into it.
class Recent {
 public:
  static constexpr std::size_t kMostBytes = 24;

  struct Slot {
    std::uint64_t owner = 0;
    std::uint8_t bytes = 0;
    std::uint8_t count = 0;
    std::array<char, kMostBytes> piece{};
    std::array<std::int32_t, kMostBytes> tokens{};

    [[nodiscard]] bool holds(std::uint64_t whose, std::string_view wanted) const {
      return owner == whose && std::string_view(piece.data(), bytes) == wanted;
    }
    void set(std::uint64_t whose, std::string_view text, std::span<const std::int32_t> made) {
      owner = whose;
      bytes = static_cast<std::uint8_t>(text.copy(piece.data(), text.size()));
      count = static_cast<std::uint8_t>(made.size());
      std::ranges::copy(made, tokens.begin());
    }
  };

  Slot& slot_of(std::string_view piece) {
    return slots_[std::hash<std::string_view>()(piece) % slots_.size()];
  }

 private:
  std::vector<Slot> slots_ = std::vector<Slot>(8192);
};

/// No two tables of a process have the same number: threads may remember one that is gone.
std::uint64_t next_number() {
  static std::atomic<std::uint64_t> numbers = 0;
  return ++numbers;
}

}  // namespace

PairTable::PairTable(std::size_t most) : slots_(std::bit_ceil(2 * most + 1)) {}

std::size_t PairTable::slot_of(std::uint64_t pair) const {
  const std::size_t mask = slots_.size() - 1;
  // Fibonacci hashing: the upper bits are the mixed ones.
  std::size_t slot = (pair * 0x9E3779B97F4A7C15U >> 20U) & mask;
  while (slots_[slot].pair != kEmpty && slots_[slot].pair != pair) slot = (slot + 1) & mask;
  return slot;
}

void PairTable::set(std::int32_t left, std::int32_t right, const Merge& merge) {
  Slot& slot = slots_[slot_of(key_of(left, right))];
  slot = {.pair = key_of(left, right), .merge = merge};
}

const Merge* PairTable::find(std::int32_t left, std::int32_t right) const {
  const Slot& slot = slots_[slot_of(key_of(left, right))];
  return slot.pair == kEmpty ? nullptr : &slot.merge;
}

MergeTable::MergeTable(Description description, const std::string& place)
    : number_(next_number()), pairs_(description.merges.size()) {
  entries_.reserve(description.vocabulary.size());
  for (auto& [bytes, token] : description.vocabulary)
    entries_.emplace(std::move(bytes), Entry{.token = token});
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const auto entry = entries_.find(std::string_view(&c, 1));
    expect(entry != entries_.end(),
           "{}: the vocabulary has no token for the byte {}; use a byte-level tokenizer with all "
           "256 of them",
           place, byte);
    of_bytes_.push_back(entry->second.token);
  }
  const auto token_for = [&](const std::string& bytes, std::size_t rank) {
    const auto entry = entries_.find(bytes);
    if (entry == entries_.end())
      fail("{}: merge {} needs the token '{}', which the vocabulary lacks; copy the file again",
           place, rank + 1, one_line(token_of_bytes(bytes)));
    return entry->second.token;
  };
  for (std::size_t rank = 0; rank < description.merges.size(); ++rank) {
    const auto& [left, right] = description.merges[rank];
    pairs_.set(token_for(left, rank), token_for(right, rank),
               {.rank = static_cast<std::uint32_t>(rank), .token = token_for(left + right, rank)});
  }
  std::vector<std::int32_t> tokens;
  for (auto& [bytes, entry] : entries_) {
    tokens.clear();
    if (!description.ignore_merges && !bytes.empty()) merge(bytes, tokens);
    entry.is_whole =
        description.ignore_merges || (tokens.size() == 1 && tokens.front() == entry.token);
  }
}

void MergeTable::append(std::string_view piece, std::vector<std::int32_t>& tokens) const {
  const auto entry = entries_.find(piece);
  if (entry != entries_.end() && entry->second.is_whole) {
    tokens.push_back(entry->second.token);
    return;
  }
  if (piece.size() > Recent::kMostBytes) return merge(piece, tokens);
  thread_local Recent recent;
  Recent::Slot& slot = recent.slot_of(piece);
  if (!slot.holds(number_, piece)) {
    const std::size_t before = tokens.size();
    merge(piece, tokens);
    slot.set(number_, piece, std::span(tokens).subspan(before));
    return;
  }
  tokens.insert(tokens.end(), slot.tokens.begin(), slot.tokens.begin() + slot.count);
}

void MergeTable::merge(std::string_view piece, std::vector<std::int32_t>& tokens) const {
  thread_local Merging merging;
  merging.start(piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i)
    merging.set(i, of_bytes_[static_cast<unsigned char>(piece[i])]);
  merging.run(pairs_);
  merging.append_to(tokens);
}

}  // namespace dos::data::bpe
