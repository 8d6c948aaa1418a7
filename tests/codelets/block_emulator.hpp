// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/bf16.hpp"
#include "codelets/host_block.hpp"

namespace dos::test {

/// A thread's view of its block (codelets/attention/attention_products.hpp) on the host. ldmatrix
/// and mma.sync follow the PTX ISA's description of who holds what.
class EmulatedLane {
 public:
  explicit EmulatedLane(int thread) : thread_(thread) {}

  [[nodiscard]] int thread() const { return thread_; }
  [[nodiscard]] int warp() const { return thread_ / HostBlock::kWarp; }
  [[nodiscard]] int lane() const { return thread_ % HostBlock::kWarp; }
  void barrier() const { HostBlock::barrier(); }
  void sync_warp() const { HostBlock::sync_warp(); }

  /// The copy arrives no sooner than wait_copies(): what is read before is not there.
  void copy_word(void* to, const void* from) const;
  void wait_copies() const;

  void load_matrices(std::uint32_t (&r)[4], const BF16* from) const;
  void load_transposed(std::uint32_t (&r)[4], const BF16* from) const;
  void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                std::uint32_t b1) const;
  [[nodiscard]] float quad_max(float x) const;
  [[nodiscard]] float quad_sum(float x) const;
  [[nodiscard]] bool any(bool condition) const;
  [[nodiscard]] std::uint32_t pack(float low, float high) const;
  [[nodiscard]] float exp2(float x) const;

 private:
  struct Copy {
    void* to;
    const void* from;
  };
  int thread_;
  mutable std::vector<Copy> copies_;
};

/// Runs `program` once for each of `threads` threads (whole warps) until all have ended.
void emulate_block(int threads, const std::function<void(const EmulatedLane&)>& program);

}  // namespace dos::test
