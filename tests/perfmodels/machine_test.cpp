// SPDX-License-Identifier: Apache-2.0
#include "perfmodels/machine.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "base/error.hpp"
#include "message_of.hpp"
#include "perfmodels/rates.hpp"
#include "scratch_directory.hpp"

namespace dos::perfmodels::machine_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kGood = R"(format = 1
description = "a test"
[node]
gpus = { value = 2, unit = "1", source = "s" }
cpu_workers = { value = 8, unit = "1", source = "s" }
training_rate = { value = 100, unit = "TFLOP/s", source = "s" }
task_latency = { value = 0, unit = "us", source = "s" }
[cpu]
update_rate = { value = 2, unit = "Gparam/s", source = "bench" }
[dram]
bandwidth = { value = 100, unit = "GB/s", source = "s" }
capacity = { value = 64, unit = "GiB", source = "s" }
[gpu]
update_rate = { value = 40, unit = "Gparam/s", source = "s" }
memory = { value = 24, unit = "GB", source = "s" }
[link]
h2d = { value = 25, unit = "GB/s", source = "s" }
d2h = { value = 20, unit = "GB/s", source = "s" }
both = { value = 40, unit = "GB/s", source = "s" }
latency = { value = 10, unit = "us", source = "s" }
)";

Machine parse(const std::string& text) {
  return parse_machine(text, "m.toml", "m");
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  return test::message_of<Error>([&] { parse(text); });
}

TEST(MachineFile, IsReadInBaseUnits) {
  const Machine machine = parse(kGood);
  EXPECT_EQ(machine.gpus.value, 2);
  EXPECT_DOUBLE_EQ(machine.cpu_update_rate.value.value(), 2e9);
  EXPECT_EQ(machine.cpu_update_rate.source, "bench");
  EXPECT_DOUBLE_EQ(machine.dram_capacity.value.value(), 64 * 0x1p30);
  EXPECT_DOUBLE_EQ(machine.transfer_latency.value.value(), 1e-5);
  EXPECT_FALSE(machine.published.has_value());
}

TEST(MachineFile, ErrorsNameFileLineAndRemedy) {
  EXPECT_THAT(error_of("format ="), HasSubstr("m.toml:1: "));
  EXPECT_THAT(error_of(replaced("format = 1\n", "")), HasSubstr("'format = 1' is missing"));
  EXPECT_THAT(error_of(replaced("format = 1", "format = 7")),
              AllOf(HasSubstr("format 7"), HasSubstr("measure the machine again")));
  EXPECT_THAT(error_of(replaced("value = 25", "value = -25")),
              HasSubstr("m.toml:17: link.h2d = -25 must be above 0"));
  EXPECT_THAT(error_of(replaced("value = 25", "value = 0")), HasSubstr("link.h2d = 0 must be"));
  for (const char* value : {"nan", "inf", "-inf"})
    EXPECT_THAT(
        error_of(replaced("value = 25", std::string("value = ") + value)),
        HasSubstr(std::string("m.toml:17: link.h2d.value = ") + value + " must be a finite"));
  EXPECT_THAT(error_of(replaced("value = 25", "value = \"25\"")), HasSubstr("must be a number"));
  EXPECT_THAT(error_of(replaced("value = 25, unit = \"GB/s\"", "value = 25, unit = \"Gb/s\"")),
              HasSubstr("link.h2d has unit 'Gb/s', known: GB/s, GiB/s"));
  EXPECT_THAT(error_of(replaced("source = \"bench\"", "note = \"bench\"")),
              HasSubstr("unknown part 'note'"));
  EXPECT_THAT(error_of(replaced("value = 25,", "value = 25, spread = -1,")),
              HasSubstr("m.toml:17: link.h2d.spread must be a number of at least 0"));
  EXPECT_THAT(error_of(replaced(", source = \"bench\"", "")),
              HasSubstr("cpu.update_rate needs source"));
  EXPECT_THAT(error_of(replaced("h2d =", "h2 =")),
              HasSubstr("unknown key 'link.h2' (did you mean 'link.h2d'?)"));
  EXPECT_THAT(error_of(replaced("both = { value = 40, unit = \"GB/s\", source = \"s\" }\n", "")),
              HasSubstr("m.toml:16: link.both is missing in this section"));
  EXPECT_THAT(error_of(replaced("gpus = { value = 2", "gpus = { value = 1.5")),
              HasSubstr("whole number"));
  EXPECT_THAT(error_of(replaced("gpus = { value = 2", "gpus = { value = 1000")),
              HasSubstr("node.gpus = 1000 must be at most 128"));
  EXPECT_THAT(error_of(replaced("gpus = { value = 2", "gpus = { value = 0")),
              HasSubstr("m.toml:14: gpu.update_rate is given, but node.gpus is 0"));
  EXPECT_THAT(error_of(replaced("{ value = 25, unit = \"GB/s\", source = \"s\" }", "25")),
              HasSubstr("write link.h2d = { value = ..., unit = \"GB/s\", source"));
}

TEST(MachineFile, ANetworkHasBandwidthAndLatency) {
  const std::string bandwidth =
      "[network]\nbandwidth = { value = 25, unit = \"GB/s\", source = \"s\" }\n";
  EXPECT_FALSE(parse(kGood).network.has_value());
  EXPECT_THAT(error_of(kGood + bandwidth), HasSubstr("network.latency is missing"));
  const Machine machine =
      parse(kGood + bandwidth + "latency = { value = 2, unit = \"us\", source = \"s\" }\n");
  EXPECT_DOUBLE_EQ(machine.network->bandwidth.value.value(), 25e9);
  EXPECT_DOUBLE_EQ(machine.network->latency.value.value(), 2e-6);
}

TEST(MachineFile, ContradictionsAreRefused) {
  EXPECT_THAT(error_of(replaced("bandwidth = { value = 100", "bandwidth = { value = 50")),
              HasSubstr("cpu.update_rate = 2 Gparam/s moves 56 GB/s, dram.bandwidth is 50 GB/s"));
  EXPECT_THAT(error_of(replaced("both = { value = 40", "both = { value = 46")),
              HasSubstr("link.both = 46 GB/s must lie between"));
  EXPECT_THAT(error_of(replaced("both = { value = 40", "both = { value = 24")),
              HasSubstr("link.both = 24 GB/s must lie between"));
  const std::string busy = "[link]\nh2d_cpu_busy = { value = 26, unit = \"GB/s\", source = \"s\" }";
  EXPECT_THAT(error_of(replaced("[link]", busy)),
              HasSubstr("link.h2d_cpu_busy = 26 GB/s is above link.h2d = 25 GB/s"));
}

TEST(MachineFile, RatesOfWorkersAgree) {
  const auto with_worker = [](const char* rate) {
    return replaced("[dram]", std::string("worker_rate = { value = ") + rate +
                                  ", unit = \"Gparam/s\", source = \"s\" }\n[dram]");
  };
  // Alone a worker is faster than in company, and readings have their noise.
  for (const char* rate : {"0.21", "0.25", "1", "2.4"})
    EXPECT_EQ(error_of(with_worker(rate)), "") << rate;
  EXPECT_THAT(error_of(with_worker("2.6")),
              HasSubstr("m.toml:10: cpu.worker_rate = 2.6 Gparam/s of one worker is above"));
  EXPECT_THAT(
      error_of(with_worker("0.19")),
      HasSubstr("m.toml:9: cpu.update_rate = 2 Gparam/s is more than node.cpu_workers = 8"));
}

TEST(MachineFile, BusyLinksCarryNoMoreThanTheirDirections) {
  const auto with_busy = [](const std::string& both) {
    return replaced("[link]",
                    "[link]\nh2d_cpu_busy = { value = 15, unit = \"GB/s\", source = \"s\" }\n"
                    "both_cpu_busy = { value = " +
                        both + ", unit = \"GB/s\", source = \"s\" }");
  };
  EXPECT_EQ(error_of(with_busy("35")), "");
  EXPECT_THAT(error_of(with_busy("36")),
              HasSubstr("m.toml:18: link.both_cpu_busy = 36 GB/s is above the sum"));
}

TEST(MachineFile, WrongUnitsAreRefused) {
  const auto refused = [](const char* from, const char* to) {
    return error_of(replaced(from, to)).ends_with("in this unit: is the unit right?");
  };
  EXPECT_TRUE(refused("memory = { value = 24", "memory = { value = 1e30"));
  EXPECT_TRUE(refused("cpu_workers = { value = 8", "cpu_workers = { value = 1e30"));
  EXPECT_TRUE(refused("latency = { value = 10", "latency = { value = 1e9"));
  EXPECT_TRUE(refused("task_latency = { value = 0", "task_latency = { value = 1e12"));
  EXPECT_TRUE(refused("update_rate = { value = 2", "update_rate = { value = 1e-12"));
  EXPECT_TRUE(refused("training_rate = { value = 100", "training_rate = { value = 1e-12"));
  EXPECT_THAT(error_of(replaced("memory = { value = 24", "memory = { value = 1e30")),
              HasSubstr("m.toml:15: gpu.memory = 1e+30 must lie between 0.001 and 1e+08"));
}

TEST(MachineFile, UnknownNamesSuggestTheNearest) {
  const test::ScratchDirectory folder;
  const auto error = [&](const std::string& name) -> std::string {
    try {
      find_machine(name, folder.path(), {.name = "myhost"});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  std::ofstream(folder / "h100-4x.toml") << kGood;
  EXPECT_THAT(error("h100-x4"), HasSubstr("unknown machine 'h100-x4' (did you mean 'h100-4x'?)"));
  EXPECT_THAT(error("this"),
              AllOf(HasSubstr("myhost.toml"), HasSubstr("does not exist: run calibrate")));
  EXPECT_EQ(find_machine("h100-4x", folder.path()).name, "h100-4x");
  EXPECT_EQ(find_machine(folder / "h100-4x.toml", "/nowhere").name, "h100-4x");
  std::ofstream(folder / "myhost.toml") << kGood;
  EXPECT_EQ(find_machine("this", folder.path(), {.name = "myhost"}).name, "myhost");
}

const std::string kCalibration = R"([calibration]
host = "node7"
date = "2026-11-21"
starpu = "1.3.10"
cores = 8
nvidia_gpus = 2
)";

TEST(Calibration, OfAnotherMachineIsStale) {
  const test::ScratchDirectory folder;
  std::ofstream(folder / "node7.toml") << kGood << kCalibration;
  std::ofstream(folder / "node8.toml") << kGood << kCalibration;
  const auto error = [&](const Host& host) -> std::string {
    try {
      find_machine("this", folder.path(), host);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error({.name = "node7", .cores = 8, .nvidia_gpus = 2}), "");
  EXPECT_THAT(error({.name = "node8", .cores = 8, .nvidia_gpus = 2}),
              AllOf(HasSubstr("node8.toml: calibrated on host 'node7', this is 'node8'"),
                    HasSubstr("run calibrate again")));
  EXPECT_THAT(error({.name = "node7", .cores = 4, .nvidia_gpus = 2}),
              HasSubstr("calibrated with 8 cores, this process may use 4"));
  EXPECT_THAT(error({.name = "node7", .cores = 8, .nvidia_gpus = 1}),
              HasSubstr("calibrated with 2 NVIDIA GPUs, CUDA now shows 1"));
  // By its name or path a file is used as it is.
  EXPECT_EQ(find_machine("node8", folder.path()).calibration->host.name, "node7");
}

TEST(Calibration, IsReadWholeOrNotAtAll) {
  const Machine machine = parse(kGood + kCalibration);
  ASSERT_TRUE(machine.calibration.has_value());
  EXPECT_EQ(machine.calibration->host.cores, 8);
  EXPECT_EQ(machine.calibration->date, "2026-11-21");
  EXPECT_THAT(error_of(kGood + "[calibration]\nhost = \"a\"\n"),
              AllOf(HasSubstr("is missing"), HasSubstr("run calibrate again")));
  EXPECT_THAT(error_of(kGood + kCalibration + "core = 8\n"),
              HasSubstr("unknown key 'calibration.core'"));
  std::string text = kGood + kCalibration;
  text.replace(text.find("cores = 8"), 9, "cores = \"8\"");
  EXPECT_THAT(error_of(text), HasSubstr("calibration.cores must be a whole number"));
  text.replace(text.find("cores = \"8\""), 11, "cores = -3");
  EXPECT_THAT(error_of(text), HasSubstr("calibration.cores = -3 must be at least 1"));
}

TEST(MachineText, IsReadBack) {
  Machine machine = parse(kGood + kCalibration);
  machine.h2d.spread = 0.031;
  machine.h2d.source = "a \"b\" \\ c";
  machine.gather = {{units::gigabytes_per_second(3)}, "assumed"};
  machine.network = {.bandwidth = {units::gigabytes_per_second(25), "b"},
                     .latency = {units::microseconds(2), "l"}};
  machine.published = {.downcast_rate = {units::gparams_per_second(2), "d"},
                       .blocking_flush = {units::gparams_per_second(1), "b"},
                       .gpu_update_rate = {units::gparams_per_second(9), "g"}};
  const std::string text = machine_text(machine);
  const Machine back = parse(text);
  EXPECT_EQ(machine_text(back), text);
  EXPECT_EQ(back.h2d.source, machine.h2d.source);
  EXPECT_DOUBLE_EQ(back.h2d.spread.value(), 0.031);
  EXPECT_FALSE(back.d2h.spread.has_value());
  EXPECT_DOUBLE_EQ(back.gather->value.value(), 3e9);
  EXPECT_EQ(back.gpus.value, 2);
  EXPECT_EQ(back.calibration->host.name, "node7");
  // Five digits.
  EXPECT_NEAR(back.dram_capacity.value.value(), machine.dram_capacity.value.value(), 0.5e-4 * 64e9);

  machine.gpus.value = 0;
  machine.gather.reset();
  machine.published.reset();
  const Machine cpu_only = parse(machine_text(machine));
  EXPECT_EQ(cpu_only.gpus.value, 0);
  EXPECT_EQ(cpu_only.network->latency.source, "l");
}

TEST(Machines, OfTheRepositoryAreReadable) {
  const std::filesystem::path folder =
      std::filesystem::path(std::getenv("DOS_SOURCE_DIR")) / "perfmodels" / "machines";
  const auto names = machine_names(folder);
  EXPECT_THAT(names, testing::IsSupersetOf({"a100", "a100-4x", "cpu-2core", "gh200", "h100",
                                            "h100-4x", "h200", "rtx4090"}));
  for (const std::string& name : names) {
    const Machine machine = find_machine(name, folder);
    EXPECT_NO_THROW(rates_of(machine, 1)) << name;
  }
}

TEST(RatesOf, DividesTheNodeAmongItsRanks) {
  Machine machine = parse(kGood);
  const Rates one = rates_of(machine, 1);
  EXPECT_EQ(one.gpus.size(), 2U);
  EXPECT_EQ(one.cpu_workers, 8);
  EXPECT_DOUBLE_EQ(one.cpu_worker.value(), 2.5e8);
  // Nothing was measured with a busy CPU: the link's own rates stand in.
  EXPECT_EQ(one.gpus[0].h2d_cpu_busy, machine.h2d.value);
  const Rates half = rates_of(machine, 2);
  EXPECT_EQ(half.gpus.size(), 1U);
  EXPECT_DOUBLE_EQ(half.cpu_update.value(), 1e9);
  EXPECT_DOUBLE_EQ(half.dram.value(), 5e10);
  EXPECT_EQ(half.gpus[0].h2d, machine.h2d.value);
  EXPECT_THROW(rates_of(machine, 3), Error);
  EXPECT_THROW(rates_of(machine, 0), Error);
}

TEST(RatesOfRule, FollowTheBytesThatAnUpdateMoves) {
  const Rates adamw = rates_of(parse(kGood), 1);
  EXPECT_EQ(rates_of_rule(adamw, kAdamwStates).cpu_update, adamw.cpu_update);
  // p, m and g read, p, m and w written: 20 bytes against AdamW's 28.
  const Rates lion = rates_of_rule(adamw, 1);
  EXPECT_DOUBLE_EQ(lion.cpu_update.value(), adamw.cpu_update.value() * 28 / 20);
  EXPECT_DOUBLE_EQ(lion.cpu_worker.value(), adamw.cpu_worker.value() * 28 / 20);
  EXPECT_DOUBLE_EQ(lion.gpus[1].update.value(), adamw.gpus[1].update.value() * 28 / 20);
  EXPECT_EQ(lion.dram, adamw.dram);
  EXPECT_EQ(lion.gpus[0].h2d, adamw.gpus[0].h2d);
}

}  // namespace
}  // namespace dos::perfmodels::machine_test
