// SPDX-License-Identifier: Apache-2.0
#include "platform/crash_signals.hpp"

#include <dlfcn.h>

#include <csignal>
#include <initializer_list>

namespace dos::platform {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
constexpr bool kIsSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kIsSanitized = false;
#endif

bool is_of_this_program(const void* function) {
  Dl_info its{};
  Dl_info ours{};
  return dladdr(function, &its) != 0 &&
         dladdr(reinterpret_cast<const void*>(&leave_crashes_to_the_system), &ours) != 0 &&
         its.dli_fbase == ours.dli_fbase;
}

}  // namespace

void leave_crashes_to_the_system() noexcept {
  if (kIsSanitized) return;
  for (const int signal : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGSEGV, SIGSYS, SIGTRAP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    const bool has_info = (action.sa_flags & SA_SIGINFO) != 0;
    if (!has_info && (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL)) continue;
    const void* handler = has_info ? reinterpret_cast<const void*>(action.sa_sigaction)
                                   : reinterpret_cast<const void*>(action.sa_handler);
    if (is_of_this_program(handler)) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace dos::platform
