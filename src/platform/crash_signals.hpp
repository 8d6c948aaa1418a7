// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos::platform {

/// A crash ends the process, with a core file where that is configured: takes away the handlers
/// that libraries put in between, which print call stacks and may hang (UCX's, and LLVM's inside
/// PoCL). Those of the program itself stay. To be called after what loads or starts such libraries.
/// Does nothing in a build with sanitizers, whose handlers are wanted.
void leave_crashes_to_the_system() noexcept;

}  // namespace dos::platform
