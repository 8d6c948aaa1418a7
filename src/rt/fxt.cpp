// SPDX-License-Identifier: Apache-2.0
#include "rt/fxt.hpp"

#include <starpu.h>
#include <starpu_fxt.h>

namespace dos::rt {

bool has_fxt() {
#ifdef STARPU_USE_FXT
  return starpu_fxt_is_enabled() != 0;
#else
  return false;
#endif
}

void note_in_fxt(const std::string& text) {
  starpu_fxt_trace_user_event_string(text.c_str());
}

}  // namespace dos::rt
