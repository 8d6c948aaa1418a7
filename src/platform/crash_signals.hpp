// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace dos::platform {

/// A crash ends the process, with a core file where that is configured: takes away the handlers
/// that libraries put in between, which print call stacks and may hang (UCX's, and LLVM's inside
/// PoCL). So does the end of the terminal, SIGHUP, which UCX catches and forgets; where it was
/// ignored when the program began (nohup) it is again. Handlers of the program itself stay, or come
/// back. To be called after what loads or starts such libraries. Does nothing in a build with
/// sanitizers, whose handlers are wanted.
void leave_crashes_to_the_system() noexcept;

/// From now on a crash (but not an abort, whose cause says why) writes one line that names
/// `program` and the signal before it ends the process. A stack that has overflowed has room for it
/// in the calling thread only. Calls leave_crashes_to_the_system(). Does nothing in a build with
/// sanitizers.
void say_at_crash(std::string_view program) noexcept;

/// `handler`, which writes last words, gets a signal that ends the process, also after libraries
/// have taken it (leave_crashes_to_the_system()); null: the system's end again.
void handle_at_end(int signal, void (*handler)(int)) noexcept;

/// For such handlers: writes `words` to standard error with nothing that needs a lock, once in the
/// life of a process: a thread that comes second waits for the end. If nobody reads them the
/// process ends after some seconds all the same, by SIGALRM.
void write_last_words(std::string_view words) noexcept;

/// The last of such a handler: when it returns, the system ends the process by `signal`.
void end_by(int signal) noexcept;

}  // namespace dos::platform
