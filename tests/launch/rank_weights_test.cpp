// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_weights.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "perfmodels/machine.hpp"
#include "scratch_directory.hpp"

namespace dos::launch::rank_weights_test {
namespace {

using testing::ElementsAre;

perfmodels::Rates rates(const char* machine, Index ranks) {
  return perfmodels::rates_of(perfmodels::find_machine(machine, DOS_MACHINE_FOLDER), ranks);
}

TEST(RankWeights, ACpuUpdatesAtItsRate) {
  perfmodels::Rates cpu = rates("h100-4x", 4);
  cpu.gpus.clear();
  EXPECT_NEAR(update_rate(cpu).value(), cpu.cpu_update.value(), 1e-6 * cpu.cpu_update.value());
}

TEST(RankWeights, AGpuAndItsLinkAdd) {
  const perfmodels::Rates both = rates("h100-4x", 4);
  perfmodels::Rates cpu = both;
  cpu.gpus.clear();
  EXPECT_GT(update_rate(both), update_rate(cpu));
  // 16 bytes a parameter cross the link to the GPU.
  EXPECT_LT(update_rate(both).value(),
            both.cpu_update.value() + both.gpus.front().h2d.value() / 16);
}

TEST(RankWeights, AreRelativeToTheFastest) {
  EXPECT_THAT(relative_weights({2e9, 1.2345e9, 2e6}),
              ElementsAre(1, testing::DoubleEq(0.617), testing::DoubleEq(0.001)));
}

/// A file as calibrate writes it here, with the rates of another machine.
void write_calibration(const std::filesystem::path& folder, const perfmodels::Host& host) {
  std::ifstream file(std::filesystem::path(DOS_MACHINE_FOLDER) / "h100-16core.toml");
  std::string text(std::istreambuf_iterator<char>(file), {});
  const auto replace = [&](const std::string& before, const std::string& after) {
    ASSERT_NE(text.find(before), std::string::npos) << before;
    text.replace(text.find(before), before.size(), after);
  };
  replace("host = \"vm\"", fmt::format("host = \"{}\"", host.name));
  replace("cores = 16", fmt::format("cores = {}", host.cores));
  replace("nvidia_gpus = 1", fmt::format("nvidia_gpus = {}", host.nvidia_gpus));
  std::ofstream(folder / (host.name + ".toml")) << text;
}

TEST(MeasuredLink, IsThatOfThisMachinesCalibration) {
  const test::ScratchDirectory scratch;
  const perfmodels::Host host = this_host();
  RankPlace place;
  place.visible_gpus = host.nvidia_gpus;
  place.position.local_size = 1;
  EXPECT_EQ(measured_link(scratch.path(), place), std::nullopt);
  write_calibration(scratch.path(), host);
  const std::optional<perfmodels::GpuRates> link = measured_link(scratch.path(), place);
  ASSERT_TRUE(link);
  EXPECT_NEAR(link->both_cpu_busy.value(), 66.45e9, 1e6);
  place.position.local_size = 2;
  EXPECT_EQ(measured_link(scratch.path(), place), std::nullopt) << "one GPU is not two ranks'";
  place.position.local_size = 1;
  place.visible_gpus = host.nvidia_gpus + 1;
  EXPECT_EQ(measured_link(scratch.path(), place), std::nullopt) << "of another machine";
}

}  // namespace
}  // namespace dos::launch::rank_weights_test
