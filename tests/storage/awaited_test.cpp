// SPDX-License-Identifier: Apache-2.0
// What computing waits for goes first on a device.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "scratch_directory.hpp"
#include "storage/engine.hpp"
#include "storage/faulty_backend.hpp"
#include "storage/outcomes.hpp"
#include "storage/pages.hpp"

namespace dos::storage::awaited_test {
namespace {

using test::FaultyBackend;
using test::Gate;
using test::Mishap;

constexpr Index kBlock = 128 * 1024;
constexpr Label kActivations{.purpose = Purpose::kActivations};
constexpr Label kStates{.purpose = Purpose::kStates};

/// Waits until so many operations have begun, as long as that may take, and for more that might.
Index when_begun(const std::atomic<Index>& count, Index wanted) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (count < wanted && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return count;
}

class Awaited : public testing::Test {
 protected:
  Awaited()
      : memory_(8 * kBlock),
        file_(DirectFile::create(scratch_ / "file", std::ssize(memory_.bytes()))) {}

  std::span<std::byte> block(Index number) {
    return memory_.bytes().subspan(static_cast<std::size_t>(number * kBlock),
                                   static_cast<std::size_t>(kBlock));
  }

  test::ScratchDirectory scratch_;
  Pages memory_;
  DirectFile file_;
  test::Outcomes outcomes_;
};

TEST_F(Awaited, ActivationsGoBeforeWhatWasAskedForEarlier) {
  Gate gate;
  std::vector<Index> places;
  std::atomic<Index> begun = 0;
  Engine engine({.depth = 1, .block_bytes = kBlock},
                std::make_unique<FaultyBackend>(
                    make_backend(), [&](Index number, const Operation& operation) {
                      places.push_back(operation.offset / kBlock);
                      ++begun;
                      return Mishap{.gate = number == 0 ? &gate : nullptr};
                    }));
  engine.write(file_, 0, block(0), outcomes_.done(), kStates);
  when_begun(begun, 1);
  engine.write(file_, 1 * kBlock, block(1), outcomes_.done(), kStates);
  engine.write(file_, 2 * kBlock, block(2), outcomes_.done(), kActivations);
  engine.read(file_, 3 * kBlock, block(3), outcomes_.done(), kActivations);
  engine.read(file_, 4 * kBlock, block(4), outcomes_.done(), kStates);
  gate.open();
  engine.wait_all();
  EXPECT_EQ(places, (std::vector<Index>{0, 3, 2, 1, 4}));
  EXPECT_EQ(outcomes_.faults(), 0);
}

// Engines are one for each purpose, and a device serves them all.
TEST_F(Awaited, OtherEnginesMoveOneBlockMeanwhile) {
  Gate read_gate;
  Gate write_gate;
  std::atomic<Index> reads = 0;
  std::atomic<Index> writes = 0;
  constexpr Index kDepth = 4;
  Engine activations({}, std::make_unique<FaultyBackend>(make_backend(), [&](Index, const auto&) {
                       ++reads;
                       return Mishap{.gate = &read_gate};
                     }));
  Engine states({.depth = kDepth, .block_bytes = kBlock},
                std::make_unique<FaultyBackend>(make_backend(), [&](Index, const auto&) {
                  ++writes;
                  return Mishap{.gate = &write_gate};
                }));
  test::Outcomes read;
  activations.read(file_, 0, block(0), read.done(), kActivations);
  when_begun(reads, 1);
  states.write(file_, 0, memory_.bytes(), outcomes_.done(), kStates);
  EXPECT_EQ(when_begun(writes, 1), 1) << "of eight blocks";
  read_gate.open();
  activations.wait_all();
  EXPECT_EQ(when_begun(writes, kDepth), kDepth);
  write_gate.open();
  states.wait_all();
  EXPECT_EQ(outcomes_.faults() + read.faults(), 0);
}

}  // namespace
}  // namespace dos::storage::awaited_test
