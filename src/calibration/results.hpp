// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "calibration/statistics.hpp"
#include "perfmodels/machine.hpp"
#include "platform/processor_time.hpp"

/// What becomes of measurements: pure functions, without clock or runtime.
namespace dos::calibration {

/// One number of the machine.
struct Result {
  std::string key;     ///< of the machine file, "link.h2d"
  double value = 0;    ///< in base units: parameters, bytes, seconds, FLOP
  double spread = 0;   ///< as in Summary
  Index rounds = 0;    ///< 0: counted or read, not measured
  std::string how;     ///< what was measured, for the source
  std::string device;  ///< not "": of one of several devices, for the table only
};

/// A rate or a time that was measured.
Result measured(std::string key, const Summary& summary, std::string how);
/// A number that the system tells.
Result counted(std::string key, Index value, std::string how);

/// Makes numbers agree that noise has set against each other, and says so in `how`:
/// - DRAM carries at least what the update moved (kCpuUpdateTraffic a parameter);
/// - both directions together carry at least what one does alone, and at most their sum;
/// - a link is not faster with a busy CPU than without;
/// - a tier that moves less at once than one way has no rate of both: its reads and writes take
///   turns.
void reconcile(std::vector<Result>& results);

/// The results whose spread is above `most_spread`.
std::vector<Result> noisy(const std::vector<Result>& results, double most_spread);

/// What may make readings unsteady, or steady and wrong.
struct Conditions {
  double load = 0;         ///< runnable processes, the last minute's mean before the measurement
  Index cores = 1;         ///< that this process may use
  std::string governor{};  ///< of the processors' frequency, "" when the system does not tell
  double taken = 0;        ///< part of the processors' time that others had during the measurement
};

/// What is allowed of it: a program that runs all the time slows every reading alike.
inline constexpr double kMostTaken = 0.1;

/// The part of the machine's time between two moments that was neither idle nor one's own; `own` is
/// in seconds.
double taken_by_others(const platform::ProcessorTime& before, const platform::ProcessorTime& after,
                       double own);

/// Why the results must be refused: which are how noisy, or who disturbed them, likely reasons, and
/// what to do, in one line; "" when they may be used.
std::string objection(const std::vector<Result>& results, const Effort& effort,
                      const Conditions& conditions);

/// The machine of the results. What cannot be measured (gather, network, published, endurance) is
/// taken from `before`, and so are tiers that are not among them. Throws Error when the numbers
/// contradict each other or a key is missing.
perfmodels::Machine assemble(const std::vector<Result>& results,
                             const perfmodels::Calibration& calibration,
                             const std::string& description,
                             const std::optional<perfmodels::Machine>& before);

/// A number that two measurements of a machine disagree about.
struct Change {
  std::string key;
  std::optional<double> before;  ///< in base units; nothing: it is new
  std::optional<double> after;   ///< nothing: it is gone
  double noise = 0;              ///< the sum of both spreads
};

/// Where two machines differ by more than the noise of their measurements.
std::vector<Change> changes(const perfmodels::Machine& before, const perfmodels::Machine& after);

}  // namespace dos::calibration
