// SPDX-License-Identifier: Apache-2.0
#include "storage/engine.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <random>

#include "base/error.hpp"
#include "fails_with.hpp"
#include "file_size_limit.hpp"
#include "io/byte_pattern.hpp"
#include "scratch_directory.hpp"
#include "storage/outcomes.hpp"
#include "storage/pages.hpp"

namespace dos::storage::engine_test {
namespace {

using test::byte_pattern;
using test::fails_with;
using test::Outcomes;
using testing::HasSubstr;

std::vector<std::byte> contents(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// On io_uring, where it is to be had, and on threads.
class EngineTest : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static std::unique_ptr<Backend> backend() {
    return std::string(GetParam()) == "io_uring" ? make_uring_backend() : make_thread_backend();
  }
  void SetUp() override {
    if (backend() == nullptr) GTEST_SKIP() << "no io_uring on this machine";
  }

  test::ScratchDirectory scratch_;
  Outcomes outcomes_;
};

TEST_P(EngineTest, WritesAndReadsAnyRangeOfAnyMemory) {
  constexpr Index kBytes = (5 << 20) + 123;
  std::mt19937_64 random(3);
  const auto draw = [&](Index most) {
    return std::uniform_int_distribution<Index>(0, most)(random);
  };
  const std::vector<std::byte> expected = byte_pattern(kBytes, 5);
  for (int round = 0; round < 6; ++round) {
    // Of pages, and one byte beside them.
    const Pages source(kBytes + 1);
    const Pages target(kBytes + 1);
    const auto shift = static_cast<std::size_t>(round % 2);
    const auto from = source.bytes().subspan(shift, kBytes);
    const auto into = target.bytes().subspan(shift, kBytes);
    std::ranges::copy(expected, from.begin());
    const auto path = scratch_ / fmt::format("{}", round);
    Engine engine({.depth = 1 + draw(7), .block_bytes = Index{64 * 1024} << draw(5)}, backend());
    EXPECT_STREQ(engine.backend(), GetParam());
    {
      const DirectFile file = DirectFile::create(path, kBytes);
      for (Index first = 0; first < kBytes;) {
        const Index count = std::min(kBytes - first, 1 + draw(1 << 20));
        engine.write(file, first,
                     from.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
                     outcomes_.done());
        first += count;
      }
      engine.sync(file, outcomes_.done());
      engine.wait_all();
    }
    ASSERT_TRUE(contents(path) == expected);
    const DirectFile file = DirectFile::open(path);
    EXPECT_EQ(file.size(), kBytes);
    for (Index last = kBytes; last > 0;) {
      const Index count = std::min(last, 1 + draw(1 << 20));
      last -= count;
      engine.read(file, last,
                  into.subspan(static_cast<std::size_t>(last), static_cast<std::size_t>(count)),
                  outcomes_.done());
    }
    engine.wait_all();
    ASSERT_TRUE(std::ranges::equal(into, expected));
  }
  EXPECT_EQ(outcomes_.faults(), 0);
}

// Of a file that is there already the kernel writes both parts of such a page at once.
TEST_P(EngineTest, RangesThatMeetInAPageAreWrittenOverAFile) {
  constexpr Index kUnit = 512;
  constexpr Index kBytes = 8 << 20;
  std::mt19937_64 random(4);
  const Pages source(kBytes);
  { DirectFile::create(scratch_ / "file", kBytes); }
  Engine engine({.depth = 16}, backend());
  for (Index round = 0; round < 40; ++round) {
    const std::vector<std::byte> expected = byte_pattern(kBytes, round);
    std::ranges::copy(expected, source.data());
    {
      const DirectFile file = DirectFile::open_to_write(scratch_ / "file");
      for (Index first = 0; first < kBytes;) {
        const Index drawn = std::uniform_int_distribution<Index>(130, 800)(random) * kUnit;
        const Index count = std::min(kBytes - first, drawn);
        engine.write(file, first,
                     source.bytes().subspan(static_cast<std::size_t>(first),
                                            static_cast<std::size_t>(count)),
                     outcomes_.done());
        first += count;
      }
      engine.wait_all();
      engine.sync(file, outcomes_.done());
      engine.wait_all();
    }
    ASSERT_EQ(outcomes_.faults(), 0) << "round " << round;
    ASSERT_TRUE(contents(scratch_ / "file") == expected) << "round " << round;
  }
}

TEST_P(EngineTest, TransfersOfManyThreadsAndFilesDoNotMeet) {
  constexpr Index kBytes = 300'000;
  constexpr Index kFiles = 12;
  Engine engine({.depth = 3, .block_bytes = 128 * 1024}, backend());
  std::vector<std::vector<std::byte>> patterns;
  std::vector<DirectFile> files;
  for (Index i = 0; i < kFiles; ++i) {
    patterns.push_back(byte_pattern(kBytes, i));
    files.push_back(DirectFile::create(scratch_ / fmt::format("{}", i), kBytes));
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kFiles; ++i)
    threads.emplace_back([&, i] {
      engine.write(files[i], 0, patterns[i], outcomes_.done());
      engine.sync(files[i], outcomes_.done());
    });
  for (std::thread& thread : threads) thread.join();
  engine.wait_all();
  EXPECT_EQ(outcomes_.all(), 2 * kFiles);
  EXPECT_EQ(outcomes_.faults(), 0);
  for (std::size_t i = 0; i < kFiles; ++i) EXPECT_TRUE(contents(files[i].path()) == patterns[i]);
}

TEST_P(EngineTest, ATransferMaySubmitTheNext) {
  const DirectFile file = DirectFile::create(scratch_ / "file", 1 << 20);
  const std::vector<std::byte> bytes = byte_pattern(1 << 20, 1);
  std::vector<std::byte> back(bytes.size());
  Engine engine({}, backend());
  engine.write(file, 0, bytes, [&](const std::string& fault) {
    outcomes_.add(fault);
    engine.read(file, 0, back, outcomes_.done());
  });
  engine.wait_all();
  EXPECT_EQ(outcomes_.all(), 2);
  EXPECT_TRUE(back == bytes);
}

TEST_P(EngineTest, AreCountedWhileTheyAreOpen) {
  const Index before = Engine::open_transfers();
  const DirectFile file = DirectFile::create(scratch_ / "file", 1 << 20);
  const std::vector<std::byte> bytes = byte_pattern(1 << 20, 1);
  std::atomic<Index> meanwhile = 0;
  Engine engine({}, backend());
  for (int i = 0; i < 2; ++i)
    engine.write(file, 0, bytes, [&](const std::string&) {
      meanwhile = std::max(meanwhile.load(), Engine::open_transfers() - before);
    });
  engine.wait_all();
  EXPECT_GE(meanwhile, 1);
  EXPECT_EQ(Engine::open_transfers(), before);
}

TEST_P(EngineTest, NothingIsATransfer) {
  const DirectFile file = DirectFile::create(scratch_ / "file", 0);
  Engine engine({}, backend());
  engine.write(file, 0, {}, outcomes_.done());
  engine.sync(file, outcomes_.done());
  engine.wait_all();
  EXPECT_EQ(outcomes_.all(), 2);
  EXPECT_EQ(outcomes_.faults(), 0);
}

TEST_P(EngineTest, AFileThatEndsBeforeIsAFault) {
  { const DirectFile file = DirectFile::create(scratch_ / "file", 100'000); }
  const DirectFile file = DirectFile::open(scratch_ / "file");
  const Pages memory(200'000);
  Engine engine({}, backend());
  engine.read(file, 0, memory.bytes().first(100'000), outcomes_.done());
  engine.read(file, 0, memory.bytes().first(200'000), outcomes_.done());
  engine.wait_all();
  EXPECT_EQ(outcomes_.faults(), 1);
  EXPECT_THAT(outcomes_.last_fault(), HasSubstr("file: ends before byte 200000"));
}

TEST_P(EngineTest, AFileThatCannotBeWrittenIsAFaultOfItsOwn) {
  { const DirectFile file = DirectFile::create(scratch_ / "file", 1000); }
  const DirectFile closed = DirectFile::open(scratch_ / "file");
  const DirectFile open = DirectFile::create(scratch_ / "other", 1000);
  const std::vector<std::byte> bytes(1000);
  Engine engine({}, backend());
  engine.write(closed, 0, bytes, outcomes_.done());
  engine.write(open, 0, bytes, outcomes_.done());
  engine.wait_all();
  EXPECT_EQ(outcomes_.all(), 2);
  EXPECT_EQ(outcomes_.faults(), 1);
  EXPECT_THAT(outcomes_.last_fault(), HasSubstr("file: cannot write 1000 bytes at 0: Bad file"));
}

INSTANTIATE_TEST_SUITE_P(On, EngineTest, testing::Values("io_uring", "threads"),
                         [](const auto& name) { return std::string(name.param); });

TEST(FileTest, BadPlacesAreNamed) {
  const test::ScratchDirectory scratch;
  EXPECT_THAT([&] { DirectFile::open(scratch / "none"); },
              fails_with({"none: cannot open: No such"}));
  EXPECT_THAT([&] { DirectFile::open("/dev/null"); },
              fails_with({"/dev/null: not a regular file"}));
  EXPECT_THAT([&] { DirectFile::create(scratch / "no" / "file", 1); }, fails_with({"cannot open"}));
}

TEST(FileTest, SpaceThatIsNotThereIsKnownAtOnce) {
  const test::ScratchDirectory scratch;
  const test::FileSizeLimit limit(1 << 20);
  EXPECT_THAT([&] { DirectFile::create(scratch / "file", 2 << 20); },
              fails_with({"file: cannot reserve its space: File too large"}));
}

}  // namespace
}  // namespace dos::storage::engine_test
