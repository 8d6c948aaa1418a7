// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "base/types.hpp"
#include "codelets/update/update_codelet.hpp"
#include "rt/handle.hpp"
#include "rt/submitter.hpp"

namespace dos::calibration {

/// Bytes of the buffers that hold one parameter of an update: p, states, g, and w where it is not
/// p.
Index stored_bytes_per_parameter(const codelets::UpdateKind& kind);

/// What UpdateSet submits beside updates.
std::vector<const rt::Codelet*> set_codelets();

/// Subgroups of an optimizer, with all buffers of their updates and values as in training.
/// The session and the submitter must outlive it.
class UpdateSet {
 public:
  /// Equal subgroups. CPU workers touch the buffers first. Blocks until they have.
  UpdateSet(rt::Submitter& submitter, const codelets::UpdateKind& kind, Index subgroups,
            Index params_each);
  /// The same with subgroups of these parameters.
  UpdateSet(rt::Submitter& submitter, const codelets::UpdateKind& kind,
            const std::vector<Index>& params);

  /// One update of every subgroup.
  void submit_updates(int worker) const;
  /// Of one.
  void submit_update(Index subgroup, const rt::TaskOptions& options) const;
  /// As many plain additions over the same bytes (update_stream.hpp), on CPU workers.
  void submit_streams() const;

  [[nodiscard]] Index subgroups() const { return std::ssize(subgroups_); }
  /// What its model computes with: p unless w is another buffer.
  [[nodiscard]] const rt::Handle& working(Index subgroup) const;
  [[nodiscard]] const rt::Handle& gradient(Index subgroup) const;
  [[nodiscard]] double params() const;
  /// What an update of all of them reads and writes.
  [[nodiscard]] double traffic_bytes() const;

 private:
  struct Subgroup {
    Index params = 0;
    std::vector<std::unique_ptr<rt::Handle>> buffers;  ///< p, states, w unless it is p, g
    std::vector<const rt::Handle*> states;
    const rt::Handle* working = nullptr;
  };
  [[nodiscard]] const Subgroup& at(Index subgroup) const;
  [[nodiscard]] Subgroup make_subgroup(Index params) const;

  rt::Submitter& submitter_;
  codelets::UpdateKind kind_;
  std::unique_ptr<rt::Handle> clip_;
  std::vector<Subgroup> subgroups_;
};

}  // namespace dos::calibration
