// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/quantity.hpp"
#include "train/run.hpp"

namespace dos::fit {

/// What a rank takes of host memory beside its registered buffers.
struct Unregistered {
  units::Bytes tokens;       ///< of steps to come and of validation, until tasks have them
  units::Bytes runtime;      ///< records of buffers and tasks, of pages too
  units::Bytes program;      ///< dos::program_bytes()
  units::Bytes checkpoints;  ///< buffers that they are written and copied through

  [[nodiscard]] units::Bytes total() const { return tokens + runtime + program + checkpoints; }
};

/// Of a run whose buffers take `registered` bytes. At most: tasks and buffers are counted as if
/// every subgroup had all kinds of them.
Unregistered estimate_unregistered(const train::Run& run, const shape::RunShape& shape,
                                   Index workers, units::Bytes registered);

}  // namespace dos::fit
