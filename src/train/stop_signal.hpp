// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::train {

/// SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGUSR1 and SIGUSR2 wait from now on, also while the program
/// executes itself anew, until catch_stop_signals(). For the time before main, when libraries are
/// initialised.
void hold_stop_signals() noexcept;

enum class Warnings { kHeld, kCaught };

/// From now to the end of the process SIGINT, SIGTERM, SIGUSR1 (Slurm's warning before the time
/// limit), SIGXCPU (the soft limit of processor time, told again every second) and SIGHUP (the
/// terminal is gone; not where hold_stop_signals() found it ignored, as under nohup) are
/// remembered: training ends after the current step with a checkpoint, and a signal before the
/// first step or after the last neither loses work nor fails the program. More of them ask for the
/// same. Only a third SIGINT or SIGTERM that comes 10 s or more after the first acts as if it had
/// not been caught. SIGUSR2 asks for a checkpoint after the current step. To be called again after
/// what takes SIGUSR1, SIGHUP and SIGXCPU or all of them, as MPI_Init and OpenCL do: these three
/// are to wait so long (kHeld).
void catch_stop_signals(Warnings warnings = Warnings::kCaught) noexcept;
/// catch_stop_signals(), if it has been called before.
void catch_stop_signals_again() noexcept;
/// The number of the caught signal that arrived last, or 0 while none did.
[[nodiscard]] int stop_signal();
/// How often SIGUSR2 has asked for a checkpoint.
[[nodiscard]] Index checkpoint_requests();
/// The name of a signal that stops a run, else nullptr.
[[nodiscard]] const char* stop_signal_name(int signal);

}  // namespace dos::train
