// SPDX-License-Identifier: Apache-2.0
#include "ranks/tags.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace dos::ranks {

const char* name_of(Kind kind) {
  constexpr std::array<const char*, kKinds> kNames{
      "beat", "text", "note", "gradient", "parameter", "sums", "loss", "checkpoint", "copy"};
  return kNames[static_cast<std::size_t>(kind)];
}

Tags::Tags(Index numbers, Index largest_tag)
    : numbers_(std::max<Index>(numbers, 1)),
      rounds_(std::min(kMostRounds, (largest_tag + 1) / (kKinds * numbers_))) {
  expect(rounds_ >= kLeastRounds,
         "{} subgroups or ranks need {} tags, MPI has {}: raise sched.subgroup_params", numbers_,
         kLeastRounds * kKinds * numbers_, largest_tag + 1);
}

Index Tags::of(const MessageName& name) const {
  require(name.number >= 0 && name.number < numbers_ && name.round >= 0, "the name of a message");
  return (name.round % rounds_ * kKinds + static_cast<Index>(name.kind)) * numbers_ + name.number;
}

}  // namespace dos::ranks
