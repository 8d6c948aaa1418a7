// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trace/rows.hpp"
#include "trace/trace_manifest.hpp"

namespace dos::trace {

/// A run's trace: the rows of all ranks, on the clock of the rank that started first, in order of
/// their start.
struct Trace {
  std::vector<TraceManifest> ranks;  ///< by rank, at least one
  std::vector<Task> tasks;
  std::vector<Transfer> transfers;
  std::vector<Memory> memory;
  std::vector<Span> spans;
  std::vector<UpdatePlacement> placements;
  std::vector<Communication> communications;
  std::vector<Storage> storage;       ///< none in traces of programs that did not record it
  std::vector<std::string> warnings;  ///< what is missing in it, in words

  [[nodiscard]] const TraceManifest& rank(int number) const {
    return ranks[static_cast<std::size_t>(number)];
  }
  /// Of the link; 0 where the runtime does not know.
  [[nodiscard]] double bytes_per_s(int rank, Index from, Index to) const;
};

/// Reads the folder that `train_gpt --trace` wrote. A trace that says itself that it is not
/// complete is read as far as it goes, with a warning. Throws Error naming file and cause when
/// something cannot be read, is no trace, is cut off or damaged, or belongs to another run.
Trace read_trace(const std::filesystem::path& folder);

/// Puts the rows of ranks[i] on one clock and in order, and gives copies whose end was not seen the
/// earliest end that their link allows: one after the other, at its bandwidth.
void align(Trace& trace);

/// Throws Error unless the two may be compared: the same model.
void expect_comparable(const Trace& a, const std::string& name_a, const Trace& b,
                       const std::string& name_b);

}  // namespace dos::trace
