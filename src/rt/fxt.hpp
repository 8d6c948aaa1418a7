// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dos::rt {

/// Whether StarPU writes a trace of its own: it was built with FxT, and STARPU_FXT_TRACE asks for
/// one.
bool has_fxt();

/// Adds a user event to that trace. Pre: has_fxt().
void note_in_fxt(const std::string& text);

}  // namespace dos::rt
