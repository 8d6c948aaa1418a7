// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "offload/away_states.hpp"

// What the two files of AwayStates share.

namespace dos::offload {

/// A subgroup that is away.
struct AwayStates::Subgroup {
  Index index = 0;
  Index turn = 0;       ///< place in the order of updates
  Index disk_turn = 0;  ///< among those on disks
  Index bytes = 0;
  std::vector<const rt::Handle*> handles{};
  StateForm form{};
  std::optional<Home> kept{};  ///< where a device keeps it
  // The submitting thread's:
  Visit* visit = nullptr;  ///< that is open
  bool is_there = false;   ///< on the device that keeps it, since the first visit
  Index stores = 0;        ///< that were asked for
  // The thread's:
  Index stored = 0;
  std::optional<Region> region{};            ///< nullopt: all zeros
  std::vector<codelets::ContentSum> sums{};  ///< of what is there, by piece
  bool is_lost = false;
};

/// Waits for an access to one handle.
struct AwayStates::Access final : rt::AccessListener {
  Access(AwayStates& the_owner, Visit& the_visit, Stage the_stage)
      : owner(the_owner), visit(the_visit), stage(the_stage) {}
  void granted(void* /*data*/) noexcept override { owner.granted(visit, stage); }

  AwayStates& owner;
  Visit& visit;
  Stage stage;
};

/// Waits for what the tasks of a visit wait for besides.
struct AwayStates::Notice final : rt::AccessListener {
  Notice(AwayStates& the_owner, Visit& the_visit) : owner(the_owner), visit(the_visit) {}
  void granted(void* /*data*/) noexcept override { owner.noticed(visit); }

  AwayStates& owner;
  Visit& visit;
};

/// The time between open() and the end of the round's last access.
struct AwayStates::Visit {
  Subgroup& subgroup;
  Index round;
  Index step;
  std::vector<std::unique_ptr<Access>> accesses{};
  std::unique_ptr<Notice> notice{};  ///< until that is there
  bool is_closed = false;            ///< the slot was given back
  bool is_first = false;             ///< of what a device keeps
  std::array<int, 3> nodes{};        ///< of accesses, by stage
  std::array<Index, 3> granted{};    ///< by stage; under the lock
  Index slot = -1;
  std::optional<Region> target{};  ///< of a write
};

}  // namespace dos::offload
