// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/types.hpp"
#include "rt/device.hpp"
#include "rt/handle.hpp"
#include "rt/submitter.hpp"

namespace dos::tensor {

/// Keeps the FP32 buffers of some subgroups, states and perhaps parameters, elsewhere than in host
/// memory between their uses. The submitting thread's, all of it.
class StateHomes {
 public:
  StateHomes() = default;
  StateHomes(const StateHomes&) = delete;
  StateHomes& operator=(const StateHomes&) = delete;

  /// Where a subgroup's buffers are kept.
  struct Home {
    std::byte* lent = nullptr;    ///< rt::HandleSpec::lent; null: in host memory of their own
    int node = rt::kHostNode;     ///< rt::HandleSpec::kept_on
    int keeper = rt::kAnyWorker;  ///< rt::TaskOptions::keeper, of tasks that use them on the node

    [[nodiscard]] bool is_elsewhere() const { return lent != nullptr; }
    /// Memory for them is waited for, and others wait for it.
    [[nodiscard]] bool is_passing() const { return is_elsewhere() && keeper == rt::kAnyWorker; }
  };
  [[nodiscard]] virtual Home home_of(Index subgroup) = 0;
  /// A buffer of the subgroup, which outlives its use: at first of zeros. Pre: it is kept
  /// elsewhere; the subgroup was not opened yet.
  virtual void adopt(Index subgroup, const rt::Handle& buffer) = 0;

  /// Tasks that are submitted from now on may use the buffers, until the round ends; those with
  /// Home::keeper only there. Does nothing where they are not kept elsewhere, or may be used
  /// already. `last`: what these tasks wait for besides, as the tasks submitted so far make it, if
  /// that is the subgroup's own and is there sooner or later than others'; null: nothing is known.
  virtual void open(Index subgroup, const rt::Handle* last) = 0;
  /// What the tasks submitted so far make of them is kept. Pre: open(), if they are kept elsewhere.
  virtual void store(Index subgroup) = 0;
  /// Ends the round: what was opened has memory only until all that was submitted is done. To be
  /// called before anything waits for later rounds.
  virtual void end_round() = 0;

 protected:
  ~StateHomes() = default;
};

}  // namespace dos::tensor
