// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <random>

#include "io/byte_pattern.hpp"
#include "scratch_directory.hpp"
#include "storage/engine.hpp"
#include "storage/faulty_backend.hpp"
#include "storage/outcomes.hpp"
#include "storage/pages.hpp"

namespace dos::storage::faults_test {
namespace {

using test::FaultyBackend;
using test::Mishap;
using test::Outcomes;
using testing::HasSubstr;

constexpr Index kBytes = (1 << 20) + 77;
constexpr EngineOptions kOptions{.depth = 4, .block_bytes = 128 * 1024};

/// Writes a file and reads it back under mishaps.
class Faults : public testing::Test {
 protected:
  Faults() : memory_(kBytes), back_(kBytes), expected_(test::byte_pattern(kBytes, 9)) {
    std::ranges::copy(expected_, memory_.bytes().begin());
  }

  /// Faults of the write, then of the read.
  [[nodiscard]] std::pair<Index, Index> run(const FaultyBackend::Plan& plan) {
    const DirectFile file = DirectFile::create(scratch_ / "file", kBytes);
    Index written = 0;
    outcomes_ = std::make_unique<Outcomes>();
    {
      Engine engine(kOptions, std::make_unique<FaultyBackend>(make_backend(), plan));
      engine.write(file, 0, memory_.bytes().first(kBytes), outcomes_->done());
      engine.sync(file, outcomes_->done());
      engine.wait_all();
      written = outcomes_->faults();
      std::ranges::fill(back_.bytes(), std::byte{0});
      engine.read(file, 0, back_.bytes().first(kBytes), outcomes_->done());
    }
    EXPECT_EQ(outcomes_->all(), 3);
    return {written, outcomes_->faults() - written};
  }
  [[nodiscard]] bool is_whole() const {
    return std::ranges::equal(back_.bytes().first(kBytes), expected_);
  }

  test::ScratchDirectory scratch_;
  Pages memory_;
  Pages back_;
  std::vector<std::byte> expected_;
  std::unique_ptr<Outcomes> outcomes_;
};

/// Operations of a run without mishaps: nine blocks each way, and the flush.
constexpr Index kOperations = 19;

TEST_F(Faults, OfTheKthOperationAreThoseOfItsTransferAlone) {
  for (const int error : {EIO, ENOSPC}) {
    for (Index k = 0; k < kOperations; ++k) {
      Index count = 0;
      const auto [written, read] = run([&](Index number, const Operation&) {
        count = number + 1;
        return Mishap{.error = number == k ? error : 0};
      });
      EXPECT_EQ(written + read, 1) << k;
      EXPECT_EQ(read == 1, k >= 10) << k;
      EXPECT_LE(count, kOperations);
      const char* what = k == 9  ? "cannot flush to the device: "
                         : k < 9 ? "cannot write"
                                 : "cannot read";
      EXPECT_THAT(outcomes_->last_fault(), HasSubstr("file: " + std::string(what)));
      EXPECT_THAT(outcomes_->last_fault(),
                  HasSubstr(error == EIO ? "Input/output error" : "No space left on device"));
      if (k >= 9) continue;
      EXPECT_FALSE(is_whole()) << k;
    }
  }
}

TEST_F(Faults, ThatPassAreOvercome) {
  std::mt19937_64 random(1);
  for (const int error : {EINTR, EAGAIN}) {
    const auto [written, read] = run(
        [&](Index, const Operation&) { return Mishap{.error = random() % 3 != 0 ? error : 0}; });
    EXPECT_EQ(written + read, 0);
    EXPECT_TRUE(is_whole());
  }
}

TEST_F(Faults, ThatDoNotPassAreGivenUp) {
  const auto [written, read] = run([&](Index, const Operation& operation) {
    return Mishap{.error = operation.kind == Kind::kWrite ? EAGAIN : 0};
  });
  EXPECT_EQ(written, 1);
  EXPECT_EQ(read, 0);
}

TEST_F(Faults, ShortTransfersAreContinued) {
  std::mt19937_64 random(2);
  for (const Index unit : {1, 512, 4096}) {
    const auto [written, read] = run([&](Index, const Operation& operation) {
      const Index most = unit * static_cast<Index>(1 + random() % 200);
      return Mishap{.most_bytes = most < operation.bytes ? most : -1};
    });
    EXPECT_EQ(written + read, 0) << unit;
    EXPECT_TRUE(is_whole()) << unit;
  }
}

TEST_F(Faults, AReadOfNothingIsTheEnd) {
  const auto [written, read] = run([&](Index, const Operation& operation) {
    return Mishap{.most_bytes = operation.kind == Kind::kRead ? 0 : -1};
  });
  EXPECT_EQ(written, 0);
  EXPECT_EQ(read, 1);
  EXPECT_THAT(outcomes_->last_fault(), HasSubstr(fmt::format("ends before byte {}", kBytes)));
}

TEST_F(Faults, DirectTransfersThatAreRefusedGoThroughThePageCache) {
  Index direct = 0;
  const auto [written, read] = run([&](Index, const Operation& operation) {
    const bool refuses = operation.bytes == kOptions.block_bytes && direct < 4;
    if (refuses) ++direct;
    return Mishap{.error = refuses ? EINVAL : 0};
  });
  if (direct == 0) GTEST_SKIP() << "no direct transfers in the temporary folder";
  EXPECT_EQ(written + read, 0);
  EXPECT_TRUE(is_whole());
}

TEST_F(Faults, SlowOperationsArriveAll) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 10; ++i) {
    const auto [written, read] = run([&](Index, const Operation&) {
      return Mishap{.others_first = static_cast<Index>(random() % 4)};
    });
    EXPECT_EQ(written + read, 0);
    EXPECT_TRUE(is_whole());
  }
}

void wake(std::atomic<Index>& count) {
  ++count;
  count.notify_all();
}
void wait_for(const std::atomic<Index>& count, Index least) {
  for (Index seen = count; seen < least; seen = count) count.wait(seen);
}

// Nor is what an interrupted operation has left begun anew.
TEST_F(Faults, OfWhatIsDroppedAreThoseOfWhatWasUnderWay) {
  constexpr Index kBlock = 64 * 1024;
  test::Gate gate;
  const DirectFile file = DirectFile::create(scratch_ / "file", kBlock);
  std::atomic<Index> begun = 0;
  Outcomes outcomes;
  {
    Engine engine(kOptions,
                  std::make_unique<FaultyBackend>(make_backend(), [&](Index, const Operation&) {
                    wake(begun);
                    return Mishap{.most_bytes = kBlock / 2, .gate = &gate};
                  }));
    engine.write(file, 0, memory_.bytes().first(kBlock), outcomes.done());
    wait_for(begun, 1);
    engine.drop(file);
    gate.open();
  }
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(outcomes.all(), 1);
  EXPECT_EQ(outcomes.faults(), 1);
}

// Its memory may be used for something else at once, but for what the device has begun with.
TEST_F(Faults, OfADeviceThatHangsDoNotHoldWhatIsDropped) {
  test::Gate gate;
  const DirectFile hung = DirectFile::create(scratch_ / "hung", kBytes);
  const DirectFile other = DirectFile::create(scratch_ / "other", kBytes);
  std::atomic<Index> begun = 0;
  Outcomes dropped;
  Outcomes kept;
  {
    Engine engine(kOptions, std::make_unique<FaultyBackend>(
                                make_backend(), [&](Index, const Operation& operation) {
                                  const bool hangs = operation.descriptor == hung.direct() ||
                                                     operation.descriptor == hung.buffered();
                                  if (hangs) wake(begun);
                                  return Mishap{.gate = hangs ? &gate : nullptr};
                                }));
    engine.write(hung, 0, memory_.bytes().first(kBytes), dropped.done());
    engine.sync(hung, dropped.done());
    engine.write(other, 0, memory_.bytes().first(kBytes), kept.done());
    wait_for(begun, kOptions.depth);
    engine.drop(hung);
    gate.open();
  }
  EXPECT_EQ(begun, kOptions.depth);
  EXPECT_EQ(dropped.all(), 2);
  EXPECT_EQ(dropped.faults(), 2);
  EXPECT_EQ(kept.all(), 1);
  EXPECT_EQ(kept.faults(), 0);
}

TEST_F(Faults, WhatIsFlushedHasBeenWritten) {
  Index writes = 0;
  const auto [written, read] = run([&](Index number, const Operation& operation) {
    if (operation.kind == Kind::kWrite) ++writes;
    EXPECT_TRUE(operation.kind != Kind::kSync || writes == 9);
    return Mishap{.others_first = number == 0 ? 100 : 0};
  });
  EXPECT_EQ(written + read, 0);
}

}  // namespace
}  // namespace dos::storage::faults_test
