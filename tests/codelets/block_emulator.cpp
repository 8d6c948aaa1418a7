// SPDX-License-Identifier: Apache-2.0
#include "codelets/block_emulator.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace dos::test {
namespace {

constexpr int kWarp = 32;
constexpr std::size_t kStack = 256 * 1024;

/// Threads that wait for each other.
struct Group {
  int size = 0;
  int arrived = 0;
  long generation = 0;
};

/// What a lane shows to the others of its warp in one common operation.
struct Shown {
  std::uint32_t a[4];
  std::uint32_t b[2];
  float value;
  bool condition;
  const BF16* address;
};

struct Copy {
  void* to;
  const void* from;
};

float half_of(std::uint32_t both, int which) {
  return to_float(BF16{static_cast<std::uint16_t>(both >> (16 * which))});
}

}  // namespace

class BlockEmulator {
 public:
  BlockEmulator(int threads, const std::function<void(const EmulatedLane&)>& program)
      : program_(program), fibers_(static_cast<std::size_t>(threads)) {
    block_.size = threads;
    warps_.resize(static_cast<std::size_t>(threads / kWarp));
    for (Warp& warp : warps_) warp.group.size = kWarp;
  }

  void run() {
    for (std::size_t i = 0; i < fibers_.size(); ++i) start(i);
    std::size_t running = fibers_.size();
    while (running > 0) {
      running = 0;
      progress_ = false;
      for (current_ = 0; current_ < fibers_.size(); ++current_) {
        if (fibers_[current_].done) continue;
        swapcontext(&scheduler_, &fibers_[current_].context);
        if (!fibers_[current_].done) ++running;
      }
      if (running > 0 && !progress_) throw std::logic_error("the threads of a block wait for ever");
    }
  }

  void wait(Group& group) {
    if (++group.arrived == group.size) {
      group.arrived = 0;
      ++group.generation;
      progress_ = true;
      return;
    }
    const long mine = group.generation;
    while (group.generation == mine) swapcontext(&fibers_[current_].context, &scheduler_);
  }

  void barrier() { wait(block_); }
  void sync_warp(int thread) { wait(warp_of(thread).group); }

  /// Shows something to the warp and returns what all its lanes show. Two sets in turn: a lane may
  /// show the next while others still read this one.
  const std::array<Shown, kWarp>& show(int thread, const Shown& shown) {
    Warp& warp = warp_of(thread);
    Fiber& fiber = fibers_[static_cast<std::size_t>(thread)];
    auto& set = warp.sets[fiber.shows++ % 2];
    set[static_cast<std::size_t>(thread % kWarp)] = shown;
    wait(warp.group);
    return set;
  }

  std::vector<Copy>& copies(int thread) { return fibers_[static_cast<std::size_t>(thread)].copies; }

 private:
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    std::vector<Copy> copies;
    std::size_t shows = 0;
    bool done = false;
  };
  struct Warp {
    Group group;
    std::array<std::array<Shown, kWarp>, 2> sets;
  };

  Warp& warp_of(int thread) { return warps_[static_cast<std::size_t>(thread / kWarp)]; }

  void start(std::size_t i) {
    Fiber& fiber = fibers_[i];
    fiber.stack = std::make_unique<char[]>(kStack);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = &scheduler_;
    // makecontext hands on integers only.
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&BlockEmulator::enter), 2,
                static_cast<unsigned>(address >> 32U), static_cast<unsigned>(address));
  }

  static void enter(unsigned high, unsigned low) {
    auto* self = reinterpret_cast<BlockEmulator*>(std::uintptr_t{high} << 32U | low);
    const std::size_t mine = self->current_;
    self->program_(EmulatedLane(*self, static_cast<int>(mine)));
    self->fibers_[mine].done = true;
    self->progress_ = true;
  }

  const std::function<void(const EmulatedLane&)>& program_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  Group block_;
  ucontext_t scheduler_{};
  std::size_t current_ = 0;
  bool progress_ = false;
};

void EmulatedLane::barrier() const {
  block_->barrier();
}
void EmulatedLane::sync_warp() const {
  block_->sync_warp(thread_);
}

void EmulatedLane::copy_word(void* to, const void* from) const {
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    throw std::logic_error("a copy of 16 bytes at an address that is no multiple of them");
  block_->copies(thread_).push_back({to, from});
}

void EmulatedLane::wait_copies() const {
  for (const Copy& copy : block_->copies(thread_)) std::memcpy(copy.to, copy.from, 16);
  block_->copies(thread_).clear();
}

// Register m of lane l: elements 2 (l % 4) and the next of row l / 4 of matrix m, whose rows start
// where lanes 8m .. 8m + 7 point to.
void EmulatedLane::load_matrices(std::uint32_t (&r)[4], const BF16* from) const {
  Shown mine{};
  mine.address = from;
  const auto& all = block_->show(thread_, mine);
  for (std::size_t m = 0; m < 4; ++m) {
    const BF16* row = all[8 * m + static_cast<std::size_t>(lane() / 4)].address;
    const int column = lane() % 4 * 2;
    r[m] = row[column].bits | static_cast<std::uint32_t>(row[column + 1].bits) << 16U;
  }
}

void EmulatedLane::load_transposed(std::uint32_t (&r)[4], const BF16* from) const {
  Shown mine{};
  mine.address = from;
  const auto& all = block_->show(thread_, mine);
  for (std::size_t m = 0; m < 4; ++m) {
    const auto row = 8 * m + static_cast<std::size_t>(lane() % 4 * 2);
    const int column = lane() / 4;
    r[m] = all[row].address[column].bits |
           static_cast<std::uint32_t>(all[row + 1].address[column].bits) << 16U;
  }
}

// PTX ISA, matrix fragments for mma.m16n8k16 with .bf16: with g = lane / 4 and t = lane % 4, A's
// registers hold rows g, g + 8, g, g + 8 at columns 2t, 2t, 2t + 8, 2t + 8; B's hold rows 2t and
// 2t + 8 of column g; C's numbers are (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
void EmulatedLane::multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                            std::uint32_t b1) const {
  Shown mine{};
  std::copy(std::begin(a), std::end(a), std::begin(mine.a));
  mine.b[0] = b0;
  mine.b[1] = b1;
  const auto& all = block_->show(thread_, mine);
  for (int i = 0; i < 4; ++i) {
    const int row = lane() / 4 + (i < 2 ? 0 : 8);
    const int column = lane() % 4 * 2 + i % 2;
    float sum = 0;
    for (int k = 0; k < 16; ++k) {
      const int t = k % 8 / 2;
      const Shown& left = all[static_cast<std::size_t>(row % 8 * 4 + t)];
      const Shown& right = all[static_cast<std::size_t>(column * 4 + t)];
      sum += half_of(left.a[(row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0)], k % 2) *
             half_of(right.b[k >= 8 ? 1 : 0], k % 2);
    }
    c[i] += sum;
  }
}

float EmulatedLane::exchanged(float x, int distance) const {
  Shown mine{};
  mine.value = x;
  return block_->show(thread_, mine)[static_cast<std::size_t>(lane() ^ distance)].value;
}

float EmulatedLane::quad_max(float x) const {
  x = std::fmax(x, exchanged(x, 1));
  return std::fmax(x, exchanged(x, 2));
}
float EmulatedLane::quad_sum(float x) const {
  x += exchanged(x, 1);
  return x + exchanged(x, 2);
}

bool EmulatedLane::any(bool condition) const {
  Shown mine{};
  mine.condition = condition;
  const auto& all = block_->show(thread_, mine);
  return std::any_of(all.begin(), all.end(), [](const Shown& s) { return s.condition; });
}

std::uint32_t EmulatedLane::pack(float low, float high) const {
  return to_bf16(low).bits | static_cast<std::uint32_t>(to_bf16(high).bits) << 16U;
}

float EmulatedLane::exp2(float x) const {
  return std::exp2(x);
}

void emulate_block(int threads, const std::function<void(const EmulatedLane&)>& program) {
  BlockEmulator(threads, program).run();
}

}  // namespace dos::test
