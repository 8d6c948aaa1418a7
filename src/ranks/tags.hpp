// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::ranks {

/// What a message between two ranks is.
enum class Kind { kBeat, kText, kNote, kGradient, kParameter, kSums, kLoss, kCheckpoint, kCopy };
inline constexpr Index kKinds = 9;

/// "beat", "text", "note", "gradient", "parameter", "sums", "loss", "checkpoint", "copy".
const char* name_of(Kind kind);

/// Which message: those of a kind are numbered, by subgroup or by rank, and each number has rounds.
struct MessageName {
  Kind kind = Kind::kBeat;
  Index number = 0;
  Index round = 0;
};

/// Tags by name: both ends compute the same one, so ranks need no common order of posting. Two
/// names with equal tags are of the same kind and number, at least kLeastRounds rounds apart.
/// Number 0 of beats in round 0 has tag 0 whatever the numbers are.
class Tags {
 public:
  static constexpr Index kLeastRounds = 8;
  static constexpr Index kMostRounds = 1024;

  /// `numbers`: how many there are of a kind at most. Throws Error when MPI has too few tags.
  Tags(Index numbers, Index largest_tag);

  /// Pre: number in [0, numbers), round >= 0.
  [[nodiscard]] Index of(const MessageName& name) const;
  [[nodiscard]] Index rounds() const { return rounds_; }

 private:
  Index numbers_;
  Index rounds_;
};

}  // namespace dos::ranks
