// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos::train {

/// Catches SIGINT, SIGTERM and SIGUSR1 (Slurm's warning before the time limit) while it lives:
/// training then ends after the current step with a checkpoint. A second signal of the kind acts as
/// if it had not been caught. One at a time.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();

  /// The signal's name, or nullptr while none arrived.
  [[nodiscard]] static const char* received() { return name_of(number()); }
  /// The signal's number, or 0 while none arrived.
  [[nodiscard]] static int number();
  /// The name of a signal that is caught, else nullptr.
  [[nodiscard]] static const char* name_of(int signal);
};

}  // namespace dos::train
