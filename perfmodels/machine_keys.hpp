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

const std::vector<Unit>& count_units();
const std::vector<Unit>& time_units();

/// kNetwork, kPublished: with any other number of their section.
enum class Presence : std::uint8_t {
  kRequired,
  kOptional,
  kNetwork,
  kWithGpu,
  kOptionalWithGpu,
  kPublished
};

/// One number. Values are in base units.
struct Key {
  std::string name;                ///< "link.h2d"
  const std::vector<Unit>* units;  ///< the first one is written
  Presence presence;
  std::function<void(Machine&, Sourced<double>)> set;
  /// Nothing for an optional number that the machine does not have.
  std::function<std::optional<Sourced<double>>(const Machine&)> get;

  [[nodiscard]] bool needs_gpu() const {
    return presence == Presence::kWithGpu || presence == Presence::kOptionalWithGpu ||
           presence == Presence::kPublished;
  }
};

/// In the order in which they are written; keys of one section lie together.
const std::vector<Key>& machine_keys();

}  // namespace dos::perfmodels
