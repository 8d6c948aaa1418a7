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

/// Equal subgroups of an optimizer, with all buffers of their updates and values as in training.
/// The session and the submitter must outlive it.
class UpdateSet {
 public:
  /// CPU workers touch the buffers first. Blocks until they have.
  UpdateSet(rt::Submitter& submitter, const codelets::UpdateKind& kind, Index subgroups,
            Index params_each);

  /// One update of every subgroup.
  void submit_updates(int worker) const;
  /// As many plain additions over the same bytes (update_stream.hpp), on CPU workers.
  void submit_streams() const;

  [[nodiscard]] Index subgroups() const { return std::ssize(subgroups_); }
  [[nodiscard]] double params() const;
  /// What an update of all of them reads and writes.
  [[nodiscard]] double traffic_bytes() const;

 private:
  struct Subgroup {
    std::vector<std::unique_ptr<rt::Handle>> buffers;  ///< p, states, w unless it is p, g
    std::vector<const rt::Handle*> states;
    const rt::Handle* working = nullptr;
  };
  [[nodiscard]] Subgroup make_subgroup() const;

  rt::Submitter& submitter_;
  codelets::UpdateKind kind_;
  Index params_each_;
  std::unique_ptr<rt::Handle> clip_;
  std::vector<Subgroup> subgroups_;
};

}  // namespace dos::calibration
