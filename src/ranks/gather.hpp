// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "ranks/exchange.hpp"

namespace dos::ranks {

/// The text of every rank, by rank, on every rank. Waits for all. Throws Error after a failure.
std::vector<std::string> gather_texts(Exchange& exchange, const std::string& mine);

/// The first text, by rank, that is not empty, on every rank; "": all are. Waits for all; null: of
/// this rank alone. Throws Error after a failure.
std::string first_text(Exchange* exchange, const std::string& mine);

/// What ranks tell each other at the beginning of each step.
struct StepNote {
  Index signal = 0;      ///< number of the signal that asks this rank to stop; 0: none
  double busy_ms = 0;    ///< within which the tasks of the last finished step ran
  Index requests = 0;    ///< for a checkpoint, that this rank has had since its start
  double step_s = 0;     ///< of the last one
  Index checkpoint = 0;  ///< checkpoints that have ended
  // Of the last one that is there:
  double checkpoint_s = 0;
  double checkpoint_waited_s = 0;  ///< by updates and before it could begin
  double checkpoint_slowed_s = 0;  ///< by which steps beside one take longer, a mean of all
};

/// One note a rank and step, exchanged while the step runs. One thread.
class StepNotes {
 public:
  explicit StepNotes(Exchange& exchange);
  StepNotes(const StepNotes&) = delete;
  StepNotes& operator=(const StepNotes&) = delete;
  ~StepNotes();

  /// Starts the exchange of step `step`'s notes. Steps ascend.
  void post(Index step, const StepNote& mine);
  /// The notes of the oldest step posted, by rank; waits for them. Throws Error after a failure.
  std::vector<StepNote> take();

 private:
  class Step;
  Exchange& exchange_;
  std::list<std::unique_ptr<Step>> steps_;
};

}  // namespace dos::ranks
