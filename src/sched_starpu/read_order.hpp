// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>
#include <vector>

#include "base/quantity.hpp"
#include "base/types.hpp"

namespace dos::sched_starpu {

/// The order in which forward and backward read buffers on one GPU. Each step reads as the one
/// before did, so that the reads to come are known. Not thread-safe.
class ReadOrder {
 public:
  /// A task that comes next reads this buffer. Reads of the same one behind each other are one.
  void read(const void* buffer, units::Bytes bytes);
  /// The reads of the step are over: what comes is compared with them.
  void end_step();

  /// The buffers that are read next, each once and the next one first, as far as they fit in
  /// `room`; not beyond the end of the step. Empty where this step does not read as the one before.
  [[nodiscard]] std::vector<const void*> next(units::Bytes room) const;
  /// What was read since the step began.
  [[nodiscard]] units::Bytes read_bytes() const { return read_; }

 private:
  struct Read {
    const void* buffer;
    units::Bytes bytes;
  };
  std::vector<Read> last_;  ///< of the step before
  std::vector<Read> now_;   ///< of this step
  units::Bytes read_{0};
};

}  // namespace dos::sched_starpu
