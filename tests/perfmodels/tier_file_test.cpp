// SPDX-License-Identifier: Apache-2.0
// Machine files with places for states beside host memory and GPUs.
#include <gmock/gmock.h>

#include "base/error.hpp"
#include "perfmodels/cpu_machine.hpp"
#include "perfmodels/machine.hpp"
#include "perfmodels/rates.hpp"

namespace dos::perfmodels::tier_file_test {
namespace {

using test::kCpuMachine;
using testing::AllOf;
using testing::HasSubstr;

/// From line 13 on.
const std::string kTier = R"([[tier]]
name = "nvme"
capacity = { value = 2000, unit = "GB", source = "data sheet" }
link.to = "host"
link.read = { value = 6, unit = "GB/s", source = "fio" }
link.write = { value = 4, unit = "GB/s", source = "fio", spread = 0.1 }
link.latency = { value = 0.1, unit = "ms", source = "fio" }
)";

Machine parse(const std::string& text) {
  return parse_machine(text, "m.toml", "m");
}

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_with(const std::string& from, const std::string& to) {
  std::string text = kCpuMachine + kTier;
  const auto at = text.find(from, kCpuMachine.size());
  EXPECT_NE(at, std::string::npos) << from;
  return error_of(text.replace(at, from.size(), to));
}

TEST(TierFile, MaySayWhereItWasMeasured) {
  EXPECT_TRUE(parse(kCpuMachine + kTier).tiers.front().folders.empty());
  std::string text = kCpuMachine + kTier;
  const std::string name = "name = \"nvme\"\n";
  text.replace(text.find(name), name.size(), name + "folder = \"/nvme0/of \\\"me\\\"\"\n");
  const Machine machine = parse(text);
  EXPECT_THAT(machine.tiers.front().folders, testing::ElementsAre("/nvme0/of \"me\""));
  EXPECT_EQ(parse(machine_text(machine)).tiers.front().folders, machine.tiers.front().folders);
  EXPECT_THAT(error_with(name, name + "folder = 3\n"), HasSubstr("tier.folder"));
}

TEST(TierFile, IsReadInBaseUnits) {
  EXPECT_TRUE(parse(kCpuMachine).tiers.empty());
  const Machine machine = parse(kCpuMachine + kTier);
  ASSERT_EQ(machine.tiers.size(), 1U);
  const Tier& tier = machine.tiers.front();
  EXPECT_EQ(tier.name, "nvme");
  EXPECT_DOUBLE_EQ(tier.capacity.value.value(), 2e12);
  EXPECT_EQ(tier.capacity.source, "data sheet");
  EXPECT_DOUBLE_EQ(tier.read.value.value(), 6e9);
  EXPECT_DOUBLE_EQ(tier.write.value.value(), 4e9);
  EXPECT_DOUBLE_EQ(tier.write.spread.value(), 0.1);
  EXPECT_DOUBLE_EQ(tier.latency.value.value(), 1e-4);
  EXPECT_FALSE(tier.both.has_value());
}

TEST(TierFile, RanksShareIt) {
  const auto link_of = [](const std::string& more, Index ranks) {
    Machine machine = parse(kCpuMachine + kTier + more);
    return rates_of(machine, ranks).tiers.front();
  };
  const TierRates alone = link_of("", 1);
  EXPECT_DOUBLE_EQ(alone.capacity.value(), 2e12);
  EXPECT_DOUBLE_EQ(alone.link.in.value(), 4e9);
  EXPECT_DOUBLE_EQ(alone.link.out.value(), 6e9);
  EXPECT_EQ(alone.link.in_cpu_busy, alone.link.in);
  EXPECT_TRUE(alone.link.half_duplex) << "nothing says that it reads and writes at once";
  const TierRates half = link_of(
      "link.both = { value = 8, unit = \"GB/s\", source = \"s\" }\n"
      "link.read_cpu_busy = { value = 5, unit = \"GB/s\", source = \"s\" }\n",
      2);
  EXPECT_DOUBLE_EQ(half.capacity.value(), 1e12);
  EXPECT_DOUBLE_EQ(half.link.both.value(), 4e9);
  EXPECT_DOUBLE_EQ(half.link.out_cpu_busy.value(), 2.5e9);
  EXPECT_FALSE(half.link.half_duplex);
  EXPECT_DOUBLE_EQ(half.link.latency.value(), 1e-4);
}

TEST(TierFile, ErrorsNameFileLineAndRemedy) {
  EXPECT_THAT(error_with("name = \"nvme\"\n", ""),
              HasSubstr("m.toml:13: tier.name = \"...\" is missing in this tier"));
  EXPECT_THAT(error_with("link.to = \"host\"\n", ""),
              HasSubstr("tier.link.to = \"...\" is missing"));
  EXPECT_THAT(error_with("to = \"host\"", "to = \"gpu\""),
              AllOf(HasSubstr("tier.nvme.link.to = \"gpu\""), HasSubstr("write \"host\"")));
  for (const char* key : {"capacity", "link.read", "link.write", "link.latency"}) {
    const auto line = kTier.find(key);
    std::string text = kCpuMachine + kTier;
    text.erase(kCpuMachine.size() + line, kTier.find('\n', line) - line);
    EXPECT_EQ(error_of(text),
              std::string("m.toml:13: tier.nvme.") + key + " is missing in this tier");
  }
  EXPECT_THAT(error_with("value = 6", "value = -6"),
              HasSubstr("m.toml:17: tier.nvme.link.read = -6 must be above 0"));
  EXPECT_THAT(error_with("unit = \"GB/s\"", "unit = \"GB\""),
              HasSubstr("m.toml:17: tier.nvme.link.read has unit 'GB', known: GB/s, GiB/s"));
  EXPECT_THAT(error_with(", source = \"data sheet\"", ""),
              HasSubstr("m.toml:15: tier.nvme.capacity needs source"));
  EXPECT_THAT(
      error_with("link.read", "link.raed"),
      HasSubstr("m.toml:17: unknown key 'tier.link.raed' (did you mean 'tier.link.read'?)"));
  EXPECT_THAT(error_with("capacity", "capacities"),
              HasSubstr("m.toml:15: unknown key 'tier.capacities'"));
  EXPECT_THAT(error_with("[[tier]]", "[tier]"), HasSubstr("m.toml:13: write [[tier]]"));
  EXPECT_THAT(error_of("tier = 5\n" + kCpuMachine), HasSubstr("m.toml:1: write [[tier]]"));
  EXPECT_THAT(error_of("tier = []\n" + kCpuMachine), HasSubstr("m.toml:1: write [[tier]]"));
  EXPECT_THAT(error_of("tier = [1, 2]\n" + kCpuMachine), HasSubstr("m.toml:1: write [[tier]]"));
  EXPECT_THAT(error_of(kCpuMachine + "[[tier]]\nname = \"a\"\nlink = 5\n"),
              HasSubstr("m.toml:13: tier.link.to"));
}

TEST(TierFile, ContradictionsAreRefused) {
  EXPECT_THAT(error_of(kCpuMachine + kTier + kTier),
              HasSubstr("m.toml:20: tier 'nvme' is there already, in line 13"));
  for (const char* name : {"host", "cpu", "gpu", "dram", "downcast"})
    EXPECT_THAT(error_with("nvme", name), HasSubstr("m.toml:13: a tier cannot be called"));
  for (const char* name : {"NVMe", "a b", "a.b"})
    EXPECT_THAT(error_with("nvme", name), HasSubstr("use lower-case letters"));
  const auto with = [](const std::string& key, double value) {
    return "link." + key + " = { value = " + std::to_string(value) +
           ", unit = \"GB/s\", source = \"s\" }\n";
  };
  EXPECT_EQ(error_of(kCpuMachine + kTier + with("both", 6)), "no error");
  EXPECT_EQ(error_of(kCpuMachine + kTier + with("both", 10)), "no error");
  for (const double both : {5.9, 10.1})
    EXPECT_THAT(error_of(kCpuMachine + kTier + with("both", both)),
                AllOf(HasSubstr("m.toml:20: tier.nvme.link.both = "),
                      HasSubstr("leave it out where reads and writes take turns")));
  EXPECT_THAT(error_of(kCpuMachine + kTier + with("write_cpu_busy", 4.1)),
              HasSubstr("m.toml:20: tier.nvme.link.write_cpu_busy = 4.1 GB/s is above"));
  EXPECT_THAT(error_of(kCpuMachine + kTier + with("both_cpu_busy", 3)),
              HasSubstr("tier.nvme.link.both_cpu_busy is given, but not tier.nvme.link.both"));
  std::string many = kCpuMachine;
  for (int i = 0; i < 9; ++i) {
    many += kTier;
    many.replace(many.rfind("nvme"), 4, "disk" + std::to_string(i));
  }
  EXPECT_THAT(error_of(many), HasSubstr("9 tiers, at most 8 may be given"));
}

TEST(TierFile, IsReadBackAsWritten) {
  Machine machine = parse(kCpuMachine + kTier);
  machine.tiers.push_back(machine.tiers.front());
  machine.tiers.back().name = "pfs";
  machine.tiers.back().both = {units::gigabytes_per_second(7), "b"};
  machine.tiers.back().endurance = {units::Bytes(6e14), "data sheet"};
  const std::string text = machine_text(machine);
  const Machine back = parse(text);
  EXPECT_EQ(machine_text(back), text);
  ASSERT_EQ(back.tiers.size(), 2U);
  EXPECT_EQ(back.tiers[0].name, "nvme");
  EXPECT_FALSE(back.tiers[0].endurance.has_value());
  EXPECT_DOUBLE_EQ(back.tiers[1].endurance->value.value(), 6e14);
  EXPECT_DOUBLE_EQ(back.tiers[0].write.spread.value(), 0.1);
  EXPECT_DOUBLE_EQ(back.tiers[1].both->value.value(), 7e9);
}

}  // namespace
}  // namespace dos::perfmodels::tier_file_test
