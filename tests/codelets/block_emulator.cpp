// SPDX-License-Identifier: Apache-2.0
#include "codelets/block_emulator.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace dos::test {
namespace {

/// What a lane holds of the factors of a product.
struct Factors {
  std::uint32_t a[4];
  std::uint32_t b[2];
};

std::uint32_t both(BF16 low, BF16 high) {
  return low.bits | static_cast<std::uint32_t>(high.bits) << 16U;
}
float half_of(std::uint32_t packed, int which) {
  return to_float(BF16{static_cast<std::uint16_t>(packed >> (16 * which))});
}

bool is_word(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
}

}  // namespace

void EmulatedLane::copy_word(void* to, const void* from) const {
  if (!is_word(to) || !is_word(from)) {
    std::fputs("a copy of 16 bytes at an address that is no multiple of them\n", stderr);
    std::abort();
  }
  copies_.push_back({to, from});
}

void EmulatedLane::wait_copies() const {
  for (const Copy& copy : copies_) std::memcpy(copy.to, copy.from, 16);
  copies_.clear();
}

// Register m of lane l: elements 2 (l % 4) and the next of row l / 4 of matrix m, whose rows start
// where lanes 8m .. 8m + 7 point to.
void EmulatedLane::load_matrices(std::uint32_t (&r)[4], const BF16* from) const {
  const auto rows = HostBlock::show(from);
  for (int m = 0; m < 4; ++m) {
    const BF16* pair = rows[8 * m + lane() / 4] + lane() % 4 * 2;
    r[m] = both(pair[0], pair[1]);
  }
}

void EmulatedLane::load_transposed(std::uint32_t (&r)[4], const BF16* from) const {
  const auto rows = HostBlock::show(from);
  for (int m = 0; m < 4; ++m) {
    const int row = 8 * m + lane() % 4 * 2;
    r[m] = both(rows[row][lane() / 4], rows[row + 1][lane() / 4]);
  }
}

// PTX ISA, matrix fragments for mma.m16n8k16 with .bf16: with g = lane / 4 and t = lane % 4, A's
// registers hold rows g, g + 8, g, g + 8 at columns 2t, 2t, 2t + 8, 2t + 8; B's hold rows 2t and
// 2t + 8 of column g; C's numbers are (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
void EmulatedLane::multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                            std::uint32_t b1) const {
  const auto all = HostBlock::show(Factors{{a[0], a[1], a[2], a[3]}, {b0, b1}});
  for (int i = 0; i < 4; ++i) {
    const int row = lane() / 4 + (i < 2 ? 0 : 8);
    const int column = lane() % 4 * 2 + i % 2;
    float sum = 0;
    for (int k = 0; k < 16; ++k) {
      const int t = k % 8 / 2;
      const Factors left = all[row % 8 * 4 + t];
      const Factors right = all[column * 4 + t];
      sum += half_of(left.a[(row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0)], k % 2) *
             half_of(right.b[k >= 8 ? 1 : 0], k % 2);
    }
    c[i] += sum;
  }
}

float EmulatedLane::quad_max(float x) const {
  x = std::fmax(x, HostBlock::show(x)[lane() ^ 1]);
  return std::fmax(x, HostBlock::show(x)[lane() ^ 2]);
}
float EmulatedLane::quad_sum(float x) const {
  x += HostBlock::show(x)[lane() ^ 1];
  return x + HostBlock::show(x)[lane() ^ 2];
}

bool EmulatedLane::any(bool condition) const {
  const auto all = HostBlock::show(condition);
  bool found = false;
  for (int i = 0; i < HostBlock::kWarp; ++i) found = found || all[i];
  return found;
}

std::uint32_t EmulatedLane::pack(float low, float high) const {
  return both(to_bf16(low), to_bf16(high));
}

float EmulatedLane::exp2(float x) const {
  return std::exp2(x);
}

void emulate_block(int threads, const std::function<void(const EmulatedLane&)>& program) {
  HostBlock::run(threads, [&] { program(EmulatedLane(HostBlock::thread())); });
}

}  // namespace dos::test
