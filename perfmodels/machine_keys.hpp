// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "perfmodels/machine.hpp"

/// The numbers of a machine file: one table for its reader and its writer.
namespace dos::perfmodels {

inline constexpr Index kMachineFormat = 1;

struct Unit {
  const char* name;
  double factor;  ///< to base units
};

/// Units of one dimension, the first one is written, and what a number may be, in base units: what
/// is outside is given in a wrong unit. 0 is for its key to allow.
struct Units {
  std::vector<Unit> known;
  double least;
  double most;
};

const Units& count_units();
const Units& time_units();

/// kNetwork, kPublished: with any other number of their section.
enum class Presence : std::uint8_t {
  kRequired,
  kOptional,
  kNetwork,
  kWithGpu,
  kOptionalWithGpu,
  kPublished
};

/// One number of a machine or of a tier. Values are in base units.
template <class Owner>
struct KeyOf {
  std::string name;  ///< "link.h2d"
  const Units* units;
  Presence presence;
  std::function<void(Owner&, Sourced<double>)> set;
  /// Nothing for an optional number that the owner does not have.
  std::function<std::optional<Sourced<double>>(const Owner&)> get;

  [[nodiscard]] bool needs_gpu() const {
    return presence == Presence::kWithGpu || presence == Presence::kOptionalWithGpu ||
           presence == Presence::kPublished;
  }
};

using Key = KeyOf<Machine>;
using TierKey = KeyOf<Tier>;

/// In the order in which they are written; keys of one section lie together.
const std::vector<Key>& machine_keys();
/// Of each [[tier]].
const std::vector<TierKey>& tier_keys();

}  // namespace dos::perfmodels
