// SPDX-License-Identifier: Apache-2.0
// States on disks of checkpoints that are damaged: the run goes on from the one before, with the
// bits of one that never saw them.
#include <gmock/gmock.h>

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "checkpoint/contents.hpp"
#include "checkpoint/state_files.hpp"
#include "fails_with.hpp"
#include "sanitized.hpp"
#include "train/disk_run.hpp"

namespace dos::train::damaged_states_on_disks_test {
namespace {

class DamagedStatesOnDisks : public test::DiskRun {};

TEST_F(DamagedStatesOnDisks, AreNotTaken) {
  config_.train.stop_after = 3;
  train_on_disks(scratch_ / "run");
  const auto file = scratch_ / "run" / "checkpoints" / "last" / checkpoint::state_file_name(0);
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no files without names here";
  std::fstream(file, std::ios::in | std::ios::out).seekp(5000).put('x');
  EXPECT_THAT(
      [&] { on_disks(scratch_ / "run")->resume(CheckpointReader(scratch_ / "run", "last")); },
      test::fails_with({checkpoint::state_file_name(0), "tensor '", "checksum"}));
}

/// Flips a byte of a file of its own, whichever names the former one has, and returns what it was.
std::string damage(const std::filesystem::path& file) {
  const std::string good = read_text(file);
  std::string bad = good;
  // Of the last page, and so of a tensor.
  bad[bad.size() - 5] ^= 1;
  std::filesystem::remove(file);
  std::ofstream(file, std::ios::binary) << bad;
  return good;
}

// Whichever file it is, and whatever was taken and read of the others before.
TEST_F(DamagedStatesOnDisks, GiveWayToThoseOfTheCheckpointBefore) {
  int combination = 0;
  for (const char* precision : {"fp32", "bf16"})
    for (const double host_memory : {0.0, 90e-6}) {
      config_.train.precision = precision;
      config_.train.stop_after = 3;
      host_memory_ = host_memory;
      const auto run = scratch_ / fmt::format("{}{}", precision, host_memory);
      train_on_disks(run);
      config_.train.stop_after = 4;
      const State expected = straight(4);
      const auto last = run / "checkpoints" / "step-00000003";
      std::vector<std::filesystem::path> files;
      for (const auto& entry : std::filesystem::directory_iterator(last))
        if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
      std::ranges::sort(files);
      ASSERT_GT(files.size(), 4);
      // Those of states are alike but for the first and the last one.
      files.erase(files.begin() + 3, files.end() - 2);
      for (const std::filesystem::path& file : files) {
        if (!test::tries(combination++, 7)) continue;
        SCOPED_TRACE(file);
        const std::string good = damage(file);
        const auto out = scratch_ / fmt::format("out{}", combination);
        const auto resumed = on_disks(out);
        EXPECT_THAT([&] { resumed->resume(CheckpointReader(run, "3")); },
                    test::fails_with({file.filename().string(), "tensor '", "checksum"}));
        resumed->resume(CheckpointReader(run, "2"));
        resumed->run();
        EXPECT_TRUE(saved(out, "last") == expected);
        std::filesystem::remove(file);
        std::ofstream(file, std::ios::binary) << good;
      }
    }
}

// What is read into slots: those that one in between leaves open are free for the next.
TEST_F(DamagedStatesOnDisks, OfARunInMemoryGiveWayToo) {
  // Too few for a file a subgroup: none is taken as it is.
  const rlimit few{.rlim_cur = 300, .rlim_max = 300};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  config_.train.stop_after = 3;
  train(scratch_ / "run");
  config_.train.stop_after = 4;
  const State expected = straight(4);
  const auto file = scratch_ / "run" / "checkpoints" / "step-00000003" / checkpoint::kOptimizerFile;
  const std::string good = read_text(file);
  constexpr std::size_t kPlaces = 5;
  for (std::size_t place = 1; place <= kPlaces; ++place) {
    SCOPED_TRACE(place);
    std::string bad = good;
    bad[place * (good.size() - 1) / kPlaces] ^= 1;
    std::ofstream(file, std::ios::binary) << bad;
    const auto out = scratch_ / fmt::format("out{}", place);
    const auto resumed = on_disks(out);
    EXPECT_THAT([&] { resumed->resume(CheckpointReader(scratch_ / "run", "3")); },
                test::fails_with({checkpoint::kOptimizerFile, "checksum"}));
    resumed->resume(CheckpointReader(scratch_ / "run", "2"));
    resumed->run();
    EXPECT_TRUE(saved(out, "last") == expected);
  }
}

}  // namespace
}  // namespace dos::train::damaged_states_on_disks_test
