// SPDX-License-Identifier: Apache-2.0
#include "perfmodels/starpu_bus.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.hpp"
#include "base/file.hpp"

namespace dos::perfmodels::starpu_bus_test {
namespace {

using testing::HasSubstr;

const std::filesystem::path& folder() {
  static const std::filesystem::path path =
      std::filesystem::path(std::getenv("DOS_SOURCE_DIR")) / "perfmodels";
  return path;
}

Rates two_gpus() {
  Rates rates;
  rates.cpu_workers = 3;
  rates.cpu_update = units::gparams_per_second(3);
  rates.cpu_worker = units::gparams_per_second(2);
  rates.dram = units::gigabytes_per_second(10);
  rates.transfer_latency = units::microseconds(10);
  const auto gb = units::gigabytes_per_second;
  rates.gpus.assign(2, {.update = units::gparams_per_second(50),
                        .h2d = gb(20),
                        .d2h = gb(30),
                        .both = gb(44),
                        .h2d_cpu_busy = gb(16),
                        .d2h_cpu_busy = gb(30),
                        .both_cpu_busy = gb(36)});
  return rates;
}

std::string text_of(const std::vector<BusFile>& files, const std::string& name) {
  const auto file = std::ranges::find(files, name, &BusFile::name);
  return file == files.end() ? "" : file->text;
}

TEST(SimulatedRates, GivesEveryDirectionOneRate) {
  const GpuRates alone = simulated_rates(two_gpus(), Links::kAlone).gpus.front();
  EXPECT_DOUBLE_EQ(alone.h2d.value(), 20e9);
  EXPECT_DOUBLE_EQ(alone.d2h.value(), 22e9) << "half of both";
  EXPECT_DOUBLE_EQ(alone.both.value(), 42e9);
  EXPECT_DOUBLE_EQ(alone.both_cpu_busy.value(), 42e9);
  const GpuRates busy = simulated_rates(two_gpus(), Links::kCpuBusy).gpus.front();
  EXPECT_DOUBLE_EQ(busy.h2d.value(), 16e9);
  EXPECT_DOUBLE_EQ(busy.d2h.value(), 18e9);
}

TEST(SimulatedRates, LetsNeitherDramNorTheOtherWorkersLimit) {
  const Rates rates = simulated_rates(two_gpus(), Links::kAlone);
  EXPECT_DOUBLE_EQ(rates.cpu_worker.value(), 1e9);
  // 3 Gparam/s of 28 bytes, and both links.
  EXPECT_DOUBLE_EQ(rates.dram.value(), 84e9 + 2 * 42e9);
}

TEST(StarpuBus, FillsTheMatricesOfStarPU) {
  const auto files =
      starpu_bus("m", simulated_rates(two_gpus(), Links::kAlone), units::gigabytes(24));
  std::istringstream lines(text_of(files, "bus/m.bandwidth"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line.front(), '#');
  std::vector<std::vector<std::string>> rows;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words),
                      std::istream_iterator<std::string>());
  }
  ASSERT_EQ(rows.size(), 32U);
  for (const auto& row : rows) ASSERT_EQ(row.size(), 32U);
  EXPECT_EQ(rows[0][0], "0.000000");
  EXPECT_EQ(rows[0][1], "20000.000000");
  EXPECT_EQ(rows[2][0], "22000.000000");
  EXPECT_EQ(rows[1][2], "20000.000000") << "through host memory";
  EXPECT_EQ(rows[0][3], "nan");
  EXPECT_EQ(rows[3][0], "nan");
  EXPECT_THAT(text_of(files, "bus/m.latency"), HasSubstr("0.000000\t10.000000\t10.000000\tnan"));
  EXPECT_THAT(text_of(files, "bus/m.latency"), HasSubstr("10.000000\t0.000000\t20.000000\tnan"));
}

TEST(StarpuBus, DescribesThePlatform) {
  const auto files =
      starpu_bus("m", simulated_rates(two_gpus(), Links::kAlone), units::gigabytes(24));
  EXPECT_THAT(text_of(files, "bus/m.config"), HasSubstr("3 # Number of CPUs\n2 # Number of CUDA"));
  EXPECT_EQ(text_of(files, "bus/m.affinity"), "# GPU\tNUMA0\n0\t0\n1\t0\n");
  const std::string platform = text_of(files, "bus/m.platform.v4.xml");
  EXPECT_THAT(platform, HasSubstr("<host id=\"CPU2\""));
  EXPECT_THAT(platform, testing::Not(HasSubstr("<host id=\"CPU3\"")));
  EXPECT_THAT(platform, HasSubstr("id=\"memsize\" value=\"24000000000\""));
  EXPECT_THAT(platform, HasSubstr("<link id=\"RAM-CUDA1\" bandwidth=\"20000000000Bps\" "
                                  "latency=\"0.000010000s\"/>"));
  EXPECT_THAT(platform, HasSubstr("<route src=\"CUDA1\" dst=\"CUDA0\""));
}

class Committed : public testing::TestWithParam<std::string> {};

std::vector<std::string> machines_with_gpus() {
  // At discovery the tests are listed outside of CTest.
  if (std::getenv("DOS_SOURCE_DIR") == nullptr) return {};
  std::vector<std::string> names;
  for (const std::string& name : machine_names(folder() / "machines"))
    if (find_machine(name, folder() / "machines").gpus.value > 0) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Machines, Committed, testing::ValuesIn(machines_with_gpus()),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

TEST_P(Committed, IsWhatTheProgramWrites) {
  const Machine machine = find_machine(GetParam(), folder() / "machines");
  const Rates rates = simulated_rates(rates_of(machine, 1), Links::kAlone);
  for (const BusFile& file : starpu_bus(machine.name, rates, machine.gpu_memory.value))
    EXPECT_EQ(file.text, read_text(folder() / "sampling" / machine.name / file.name))
        << "after a change of " << machine.name << ".toml: sampling --output perfmodels/sampling";
}

}  // namespace
}  // namespace dos::perfmodels::starpu_bus_test
