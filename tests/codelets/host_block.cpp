// SPDX-License-Identifier: Apache-2.0
#include "codelets/host_block.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/sanitizer.hpp"

namespace dos::test {
namespace {

constexpr std::size_t kStack = std::size_t{256} * 1024;

/// Threads that wait for each other.
struct Group {
  int size = 0;
  int arrived = 0;
  long generation = 0;
};

struct Fiber {
  ucontext_t context;  ///< where it starts; with sanitizers, where it goes on
  jmp_buf place;       ///< where it goes on
  bool has_started = false;
  const Group* waits_for = nullptr;
  long generation = 0;  ///< of that group, which it waits for the end of
  std::unique_ptr<char[]> stack;
  std::size_t shows = 0;
  bool done = false;
};

struct Warp {
  Group group;
  /// Used in turn: a lane may show the next value while others still read this one.
  std::array<std::array<std::byte, 1024>, 2> shown;
};

/// makecontext starts functions without arguments: the block that runs stands here.
struct State {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Group block;
  ucontext_t scheduler;  ///< with sanitizers
  jmp_buf back;          ///< to the scheduler
  const std::function<void()>* program = nullptr;
  std::size_t current = 0;
  bool progress = false;
};
State state;

Fiber& current_fiber() {
  return state.fibers[state.current];
}
Warp& current_warp() {
  return state.warps[state.current / HostBlock::kWarp];
}

// swapcontext calls the kernel for the mask of signals: most of the time of a block. Jumps do not,
// but sanitizers take jumps to other stacks for errors.

/// From a thread to the scheduler, until that resumes it.
void leave() {
  if constexpr (kIsSanitized) {
    swapcontext(&current_fiber().context, &state.scheduler);
  } else if (_setjmp(current_fiber().place) == 0) {
    _longjmp(state.back, 1);
  }
}

/// From the scheduler to the current thread, until that leaves.
void resume() {
  if constexpr (kIsSanitized) {
    swapcontext(&state.scheduler, &current_fiber().context);
  } else if (_setjmp(state.back) == 0) {
    if (current_fiber().has_started) _longjmp(current_fiber().place, 1);
    current_fiber().has_started = true;
    setcontext(&current_fiber().context);
  }
}

void wait(Group& group) {
  if (++group.arrived == group.size) {
    group.arrived = 0;
    ++group.generation;
    state.progress = true;
    return;
  }
  current_fiber().waits_for = &group;
  current_fiber().generation = group.generation;
  leave();
}

bool waits(const Fiber& fiber) {
  return fiber.waits_for != nullptr && fiber.waits_for->generation == fiber.generation;
}

void enter() {
  (*state.program)();
  current_fiber().done = true;
  state.progress = true;
  leave();
}

void start(Fiber& fiber) {
  if (fiber.stack == nullptr) fiber.stack = std::make_unique_for_overwrite<char[]>(kStack);
  fiber.shows = 0;
  fiber.done = false;
  fiber.has_started = false;
  fiber.waits_for = nullptr;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = nullptr;  // a thread that is done leaves for ever
  makecontext(&fiber.context, &enter, 0);
}

/// Lets every thread run until it waits; returns how many have not ended.
std::size_t run_all() {
  std::size_t running = 0;
  for (state.current = 0; state.current < state.fibers.size(); ++state.current) {
    if (current_fiber().done) continue;
    if (!waits(current_fiber())) resume();
    if (!current_fiber().done) ++running;
  }
  return running;
}

}  // namespace

void HostBlock::run(int threads, const std::function<void()>& program) {
  state.fibers.resize(static_cast<std::size_t>(threads));
  state.warps.assign(static_cast<std::size_t>(threads / kWarp), {});
  for (Warp& warp : state.warps) warp.group.size = kWarp;
  state.block = {.size = threads};
  state.program = &program;
  for (Fiber& fiber : state.fibers) start(fiber);
  do {
    state.progress = false;
    if (run_all() == 0) return;
  } while (state.progress);
  std::fputs("the threads of a block wait for ever\n", stderr);
  std::abort();
}

int HostBlock::thread() {
  return static_cast<int>(state.current);
}
void HostBlock::barrier() {
  wait(state.block);
}
void HostBlock::sync_warp() {
  wait(current_warp().group);
}

const std::byte* HostBlock::show_bytes(const void* value, std::size_t bytes) {
  Warp& warp = current_warp();
  auto& shown = warp.shown[current_fiber().shows++ % 2];
  static_assert(sizeof shown == kWarp * kMost);
  std::memcpy(shown.data() + lane() * kMost, value, bytes);
  wait(warp.group);
  return shown.data();
}

}  // namespace dos::test
