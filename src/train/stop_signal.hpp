// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos::train {

/// From now to the end of the process SIGINT, SIGTERM and SIGUSR1 (Slurm's warning before the time
/// limit) are remembered: training ends after the current step with a checkpoint, and a signal
/// before the first step or after the last neither loses work nor fails the program. A second
/// SIGINT or SIGTERM acts as if it had not been caught; a warning may come more than once. To be
/// called after MPI_Init, which takes SIGUSR1.
void catch_stop_signals();
/// The number of the caught signal that arrived last, or 0 while none did.
[[nodiscard]] int stop_signal();
/// The name of a signal that is caught, else nullptr.
[[nodiscard]] const char* stop_signal_name(int signal);

}  // namespace dos::train
