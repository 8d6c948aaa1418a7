// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <exception>

#include "base/error.hpp"
#include "base/streams.hpp"

namespace dos::sched_starpu {

/// Runs what StarPU called. It is C, and has no way to be told: what cannot be done ends the
/// program with its reason on standard error, where the log of a foreign program may not go. A
/// user's mistake is no defect: status 1 and no core. Nothing that runs at exit would find StarPU
/// as it expects it.
template <class Action>
auto guarded(const char* method, Action&& action) noexcept {
  try {
    return action();
  } catch (const Error& error) {
    streams::say("error: scheduler, {}: {}\n", method, error.what());
    std::_Exit(EXIT_FAILURE);
  } catch (const std::exception& error) {
    streams::say("error: scheduler, {}: {}\n", method, error.what());
    std::abort();
  }
}

}  // namespace dos::sched_starpu
