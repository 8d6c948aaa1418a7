// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <map>
#include <sstream>
#include <vector>

#include "sample_trace.hpp"
#include "trace/chrome.hpp"
#include "trace/paje.hpp"

namespace dos::trace::formats_test {
namespace {

using test::sample_manifest;
using test::sample_task;
using test::sample_transfer;
using testing::HasSubstr;
using testing::Not;

Trace sample(int ranks) {
  Trace trace;
  for (int rank = 0; rank < ranks; ++rank) {
    trace.ranks.push_back(sample_manifest(rank, ranks));
    for (const Index worker : {0, 1, 2}) {
      Task task = sample_task("update", 1, worker, 1000, 3000);
      task.label = "a \"name\"";
      task.rank = rank;
      trace.tasks.push_back(task);
    }
    Transfer copy = sample_transfer("m", 0, 1, 1 << 20, 0, 1000);
    copy.rank = rank;
    trace.transfers.push_back(copy);
    trace.memory.push_back({500, 1, "gradients", 3 << 20, 0, rank});
    trace.spans.push_back({"checkpoint", 1, 3000, 4000, rank});
    trace.placements.push_back({"a", 1, 10, 900, 1, 0, rank});
    trace.communications.push_back({"reduce", -1, 10, 1, 100, 200, rank});
  }
  return trace;
}

TEST(Paje, HasStarpusNamesAndMilliseconds) {
  const std::string text = to_paje(sample(1));
  for (const char* part :
       {"1 W T \"Worker\"", "3 WS W \"Worker State\"", "4 use Mm \"Used (MB)\"",
        "4 bwi_mm Mm \"Bandwidth In (MB/s)\"", "5 F P Mm Mm \"Intra-node data Fetch\"",
        "7 0.0 w1 W t1 \"CPU0\"", "7 0.0 w0 W t0 \"CUDA0\"", "7 0.0 mm1 Mm mn1 \"MEMMANAGER1\"",
        "20 1.000000 w1 WS \"dos.update\"", "13 0.500000 mm1 use 3.000000",
        "24 0.000000 F p 1048576 mm0 com_0", "19 1.000000 F p 1048576 mm1 com_0",
        "13 0.000000 mm1 bwi_mm 1000.000000", "10 3.000000 w1 WS I",
        "10 3.000000 ut0 US \"checkpoint\"", "10 0.100000 mpict CtS \"reduce\""})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("a \"name\""))) << "quotes inside quotes";
}

TEST(Paje, RowsAreInOrderOfTime) {
  std::istringstream lines(to_paje(sample(3)));
  double last = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id;
    double time = 0;
    if (line.starts_with('%') || !(fields >> id) || std::stoi(id) < 7 || !(fields >> time))
      continue;
    EXPECT_GE(time, last) << line;
    last = time;
  }
  EXPECT_EQ(last, 4);
}

TEST(Paje, MessagesThatOverlapAreInContainersOfTheirOwn) {
  Trace trace = sample(1);
  trace.communications = {{"send", 1, 10, 1, 100, 300, 0}, {"receive", 1, 10, 1, 200, 400, 0}};
  const std::string text = to_paje(trace);
  EXPECT_THAT(text, HasSubstr("10 0.200000 mpict1 CtS \"receive\""));
  EXPECT_THAT(text, HasSubstr("10 0.300000 mpict CtS Sl"));
  EXPECT_THAT(text, HasSubstr("10 0.400000 mpict1 CtS Sl"));
  EXPECT_THAT(text, Not(HasSubstr("mpict2")));
}

/// A second disk, and transfers that overlap on the first.
Trace with_storage() {
  Trace trace = sample(1);
  trace.storage = {test::sample_storage("hold", 3 << 20, 100, 500),
                   test::sample_storage("copy", 1 << 20, 110, 120),
                   test::sample_storage("write", 1 << 20, 200, 300),
                   test::sample_storage("write", 2 << 20, 250, 400),
                   test::sample_storage("flush", 0, 400, 450),
                   test::sample_storage("wait", 0, 420, 500),
                   test::sample_storage("read", 1 << 20, 600, 700)};
  trace.storage.back().disk = "/other";
  return trace;
}

TEST(Paje, DisksAndWhatIsHeldAreContainersOfTheirOwn) {
  const std::string text = to_paje(with_storage());
  for (const char* part :
       {"1 St P \"Storage\"", "3 StS St \"Storage State\"", "7 0.0 st St p \"STORAGE\"",
        "13 0.100000 st held 3.000000", "13 0.500000 st held 0.000000",
        "10 0.110000 st StS \"copy\"", "10 0.120000 st StS Id", "7 0.0 disk0x St p \"DISK /disk\"",
        "7 0.0 disk0x1 St p \"DISK /disk 1\"", "7 0.0 disk1x St p \"DISK /other\"",
        "10 0.200000 disk0x StS \"write\"", "10 0.250000 disk0x1 StS \"write\"",
        "10 0.400000 disk0x StS \"flush\"", "10 0.420000 stw StS \"wait\"",
        "10 0.600000 disk1x StS \"read\"",
        // 1 MiB in 100 us, and 2 MiB in 150 us beside it.
        "13 0.200000 disk0x bww_st 10000.000000", "13 0.250000 disk0x bww_st 23333.333333",
        "13 0.600000 disk1x bwr_st 10000.000000"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(to_paje(sample(1)), Not(HasSubstr("STORAGE"))) << "where there is none";
}

TEST(Chrome, StorageIsPairsInRowsByNameAndDisk) {
  const nlohmann::json json = to_chrome(with_storage());
  std::map<std::string, std::vector<double>> times;
  for (const nlohmann::json& event : json.at("traceEvents"))
    if (event.value("cat", "") == "storage")
      times[event.at("name").get<std::string>()].push_back(event.at("ts").get<double>());
  EXPECT_EQ(times["hold"], (std::vector<double>{100, 500}));
  EXPECT_EQ(times["write /disk"], (std::vector<double>{200, 300, 250, 400}));
  EXPECT_EQ(times["read /other"], (std::vector<double>{600, 700}));
  EXPECT_EQ(times.size(), 6U);
}

TEST(Paje, TheLastContainerSleepsWhenTheLastOfItsMessagesHasEnded) {
  Trace trace = sample(1);
  trace.communications.clear();
  for (int i = 0; i < 9; ++i)
    trace.communications.push_back({"send", 1, 10, 1, 100.0 + i, 300.0 + 10 * i, 0});
  const std::string text = to_paje(trace);
  EXPECT_THAT(text, HasSubstr("10 0.107000 mpict7 CtS \"send\""));
  EXPECT_THAT(text, HasSubstr("10 0.108000 mpict CtS \"send\"")) << "it is free first";
  EXPECT_THAT(text, HasSubstr("10 0.380000 mpict CtS Sl"));
  EXPECT_THAT(text, Not(HasSubstr("10 0.300000 mpict ")));
  EXPECT_THAT(text, Not(HasSubstr("mpict8")));
}

TEST(Paje, RanksHaveStarpusPrefix) {
  const std::string text = to_paje(sample(2));
  EXPECT_THAT(text, HasSubstr("7 0.0 1_w1 W 1_t1 \"1_CPU0\""));
  EXPECT_THAT(text, HasSubstr("7 0.0 0_p P MPIroot \"program 0_\""));
}

TEST(Chrome, MessagesArePairsWithANumberOfTheirOwn) {
  Trace trace = sample(1);
  trace.communications = {{"send", 1, 10, 1, 100, 300, 0}, {"receive", 1, 10, 1, 200, 400, 0}};
  const nlohmann::json json = to_chrome(trace);
  std::map<Index, std::vector<double>> times;
  for (const nlohmann::json& event : json.at("traceEvents"))
    if (event.value("cat", "") == "mpi")
      times[event.at("id").get<Index>()].push_back(event.at("ts").get<double>());
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0], (std::vector<double>{100, 300}));
  EXPECT_EQ(times[1], (std::vector<double>{200, 400}));
}

TEST(Chrome, BarsCountersAndNames) {
  const nlohmann::json json = to_chrome(sample(2));
  Index bars = 0;
  Index counters = 0;
  double task_us = 0;
  for (const nlohmann::json& event : json.at("traceEvents")) {
    if (event.at("ph") == "C") ++counters;
    if (event.at("ph") != "X") continue;
    ++bars;
    if (event.at("cat") == "update") task_us += event.at("dur").get<double>();
  }
  EXPECT_EQ(bars, 2 * (3 + 1 + 1));
  EXPECT_EQ(counters, 2);
  EXPECT_EQ(task_us, 2 * 3 * 2000);
}

}  // namespace
}  // namespace dos::trace::formats_test
