// SPDX-License-Identifier: Apache-2.0
#include "launch/pass_rates.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "launch/rank_weights.hpp"
#include "perfmodels/cpu_machine.hpp"
#include "scratch_directory.hpp"

namespace dos::launch::pass_rates_test {
namespace {

/// On another device than what is on a disk.
constexpr const char* kMemory = "/dev/shm";

std::string tier(const std::string& name, const std::string& folder, double rate) {
  return fmt::format(R"([[tier]]
name = "{0}"
{1}
capacity = {{ value = 2000, unit = "GB", source = "s" }}
link.to = "host"
link.read = {{ value = {2}, unit = "GB/s", source = "s" }}
link.write = {{ value = {2}, unit = "GB/s", source = "s" }}
link.latency = {{ value = 0.1, unit = "ms", source = "s" }}
)",
                     name, folder.empty() ? "" : fmt::format("folder = \"{}\"", folder), rate);
}

dev_t device_of(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(::stat(path.c_str(), &found), 0);
  return found.st_dev;
}

class PassRates : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(kMemory) ||
        device_of(kMemory) == device_of(scratch_.path().string()))
      GTEST_SKIP() << "no two devices";
    place_.position.local_size = 1;
  }

  [[nodiscard]] std::string folder(const std::string& name) const {
    const std::filesystem::path made = scratch_.path() / name;
    std::filesystem::create_directories(made);
    return made.string();
  }

  /// As "slow 1": the disk whose rate counts, and the rate, GB/s; "": none is known.
  [[nodiscard]] std::string known(const std::string& tiers,
                                  const config::TrainConfig& config) const {
    std::ofstream(scratch_.path() / (this_host().name + ".toml")) << test::kCpuMachine << tiers;
    fit::Room room{.host_bytes = Index{1} << 40, .devices = {}};
    add_measured_rates(scratch_.path(), config, place_, "dos", /*says=*/true, room);
    EXPECT_TRUE(room.measured.compute.has_value());
    if (!room.measured.disk) return "";
    return fmt::format("{} {:g}", room.measured.disks, room.measured.disk->write.value() / 1e9);
  }

  test::ScratchDirectory scratch_;
  RankPlace place_;
};

TEST_F(PassRates, AreOfTheDiskThatIsUsed) {
  const std::string both = tier("slow", folder("a"), 1) + tier("fast", kMemory, 9);
  config::TrainConfig config;
  config.train.activation_disks = folder("run/1");
  EXPECT_EQ(known(both, config), "slow 1");
  config.sched.disks = kMemory;
  EXPECT_EQ(known(both, config), "slow 1");
  config.train.activation_disks.clear();
  EXPECT_EQ(known(both, config), "fast 9") << "those of states";
  config.train.activation_disks = folder("run/1") + "," + folder("run/2");
  EXPECT_EQ(known(both, config), "slow 1") << "two folders of one disk";
  // A disk that was not measured.
  config.sched.disks.clear();
  EXPECT_EQ(known(tier("fast", kMemory, 9), config), "");
  // Files say no folders that were written by hand, or by earlier calibrations.
  config.train.activation_disks = folder("run/1");
  EXPECT_EQ(known(tier("first", "", 4) + tier("second", "", 9), config), "first 4");
  EXPECT_EQ(known("", config), "");
}

TEST_F(PassRates, KnowWhatElseGoesToTheDisk) {
  const auto shared = [&](const std::string& activations, const std::string& states,
                          const std::string& local) {
    config::TrainConfig config;
    config.train.activation_disks = activations;
    config.sched.disks = states;
    config.train.checkpoint_local = local;
    const fit::SharedDisks found = shared_disks(config, folder("out"));
    return fmt::format("{:g} {:g}", found.states, found.checkpoints);
  };
  const std::string disk = folder("a");
  EXPECT_EQ(shared(disk, "", ""), "0 1") << "checkpoints come to the run's folder";
  EXPECT_EQ(shared(disk, "", kMemory), "0 0");
  EXPECT_EQ(shared(disk, folder("b"), kMemory), "1 0");
  EXPECT_EQ(shared(disk, folder("b") + "," + kMemory, kMemory), "0.5 0");
  EXPECT_EQ(shared(disk + "," + kMemory, folder("b"), ""), "2 2");
  EXPECT_EQ(shared(kMemory, folder("b"), (scratch_.path() / "not yet").string()), "0 0");
}

}  // namespace
}  // namespace dos::launch::pass_rates_test
