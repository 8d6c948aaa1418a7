// SPDX-License-Identifier: Apache-2.0
#include "trace/trace.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.hpp"
#include "json_mutations.hpp"
#include "message_of.hpp"
#include "sample_trace.hpp"
#include "scratch_directory.hpp"
#include "trace/recorder.hpp"

namespace dos::trace::trace_test {
namespace {

using test::sample_manifest;
using test::sample_task;
using test::sample_transfer;
using test::write_trace;
using testing::HasSubstr;

std::string error_of(const std::filesystem::path& folder) {
  return test::message_of<Error>([&] { read_trace(folder); });
}

Trace two_tasks() {
  Trace trace;
  trace.tasks = {sample_task("forward", 1, 1, 10, 20), sample_task("update", 1, 1, 20, 30)};
  return trace;
}

TEST(ReadTrace, WhatARecorderWrites) {
  const test::ScratchDirectory scratch;
  write_trace(scratch.path(), two_tasks(), sample_manifest());
  const Trace trace = read_trace(scratch.path());
  ASSERT_EQ(trace.tasks.size(), 2U);
  EXPECT_EQ(trace.tasks[1].phase, "update");
  EXPECT_EQ(trace.rank(0).machine.links.size(), 2U);
  EXPECT_TRUE(trace.warnings.empty());
}

TEST(ReadTrace, NoFolderAndAnotherFolder) {
  const test::ScratchDirectory scratch;
  EXPECT_THAT(error_of(scratch / "none"), HasSubstr("no such folder"));
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("holds no trace"));
  std::filesystem::create_directories(scratch / "rank0");
  const std::filesystem::path manifest = scratch.path() / "rank0" / kManifestName;
  std::ofstream(manifest) << "{\"some\": \"json\"}";
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("not a trace of train_gpt"));
  std::ofstream(manifest) << "{\"format\": 3}";
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("not a trace of train_gpt"));
  std::ofstream(manifest) << "not json";
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("not a trace of train_gpt"));
  std::ofstream(manifest) << R"({"format": "dos-trace", "version": 99})";
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("format version 99"));
  std::ofstream(manifest) << R"({"format": "dos-trace", "version": 1})";
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("the file is damaged"));
}

TEST(ReadTrace, AManifestThatIsDamaged) {
  const test::ScratchDirectory scratch;
  const std::filesystem::path path = scratch / kManifestName;
  test::expect_stands_damage(to_json(sample_manifest()).dump(), 2000, [&](const std::string& text) {
    std::ofstream(path) << text;
    read_manifest(path);
  });
}

TEST(ReadTrace, ACompleteTraceThatIsCutOffIsRefused) {
  const test::ScratchDirectory scratch;
  write_trace(scratch.path(), two_tasks(), sample_manifest());
  const std::filesystem::path tasks = scratch.path() / "rank0" / Task::kFile;
  const auto size = std::filesystem::file_size(tasks);
  std::filesystem::resize_file(tasks, size - 3);
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("tasks.csv:3: the line is cut off"));
  std::filesystem::resize_file(tasks, csv_header<Task>().size());
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("0 rows, but manifest.json says 2"));
  std::filesystem::remove(tasks);
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("tasks.csv"));
}

TEST(ReadTrace, WhatAnOlderProgramWroteHasNoStorage) {
  const test::ScratchDirectory scratch;
  Trace written = two_tasks();
  written.storage = {test::sample_storage("write", 10, 1, 2)};
  write_trace(scratch.path(), written, sample_manifest());
  EXPECT_EQ(read_trace(scratch.path()).storage.size(), 1U);
  const std::filesystem::path part = scratch.path() / "rank0";
  std::filesystem::remove(part / Storage::kFile);
  EXPECT_THAT(error_of(scratch.path()), HasSubstr(Storage::kFile)) << "it should be there";
  TraceManifest manifest = read_manifest(part / kManifestName);
  manifest.rows.erase(Storage::kFile);
  std::ofstream(part / kManifestName) << to_json(manifest).dump();
  const Trace trace = read_trace(scratch.path());
  EXPECT_TRUE(trace.storage.empty());
  EXPECT_TRUE(trace.warnings.empty());
  EXPECT_EQ(trace.tasks.size(), 2U);
}

TEST(ReadTrace, AMissingConfigurationIsNamed) {
  const test::ScratchDirectory scratch;
  TraceManifest manifest = sample_manifest();
  manifest.configuration = nullptr;
  write_trace(scratch.path(), two_tasks(), manifest);
  const Trace trace = read_trace(scratch.path());
  ASSERT_EQ(trace.warnings.size(), 1U);
  EXPECT_THAT(trace.warnings[0],
              HasSubstr("manifest.json does not say how the run was configured"));
}

TEST(ReadTrace, AnIncompleteTraceIsReadAsFarAsItGoes) {
  const test::ScratchDirectory scratch;
  TraceManifest manifest = sample_manifest();
  manifest.complete = false;
  manifest.reason = "No space left on device";
  write_trace(scratch.path(), two_tasks(), manifest);
  const std::filesystem::path tasks = scratch.path() / "rank0" / Task::kFile;
  std::filesystem::resize_file(tasks, std::filesystem::file_size(tasks) - 3);
  const Trace trace = read_trace(scratch.path());
  EXPECT_EQ(trace.tasks.size(), 1U);
  ASSERT_EQ(trace.warnings.size(), 1U);
  EXPECT_THAT(trace.warnings[0], HasSubstr("No space left on device"));
}

TEST(ReadTrace, RowsOfAnotherMachineAreRefused) {
  const test::ScratchDirectory scratch;
  Trace trace = two_tasks();
  trace.tasks[0].worker = 7;
  write_trace(scratch.path(), trace, sample_manifest());
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("does not know"));
}

class Ranks : public testing::TestWithParam<int> {};

/// Each rank's StarPU starts its clock when it likes, and the third machine's clock is wrong.
TEST_P(Ranks, AreMergedOnOneClock) {
  const int ranks = GetParam();
  const test::ScratchDirectory scratch;
  for (int rank = 0; rank < ranks; ++rank) {
    TraceManifest manifest = sample_manifest(rank, ranks);
    manifest.epoch_us = 5e6 - 1000.0 * rank + (rank == 2 ? 500 : 0);
    manifest.clock_offset_us = rank == 2 ? -500 : 0;
    Trace trace;
    // The same moment on all ranks.
    trace.tasks = {sample_task("forward", 1, 1, 1000.0 * rank + 7, 1000.0 * rank + 9)};
    trace.communications = {{"reduce", -1, 64, 1, 1000.0 * rank + 9, 1000.0 * rank + 10, 0}};
    trace.storage = {test::sample_storage("write", 8, 1000.0 * rank + 9, 1000.0 * rank + 11)};
    write_trace(scratch.path(), trace, manifest);
  }
  const Trace trace = read_trace(scratch.path());
  ASSERT_EQ(std::ssize(trace.tasks), ranks);
  for (const Task& task : trace.tasks) {
    EXPECT_DOUBLE_EQ(task.start, trace.tasks[0].start) << task.rank;
    EXPECT_DOUBLE_EQ(task.ready, task.start);
  }
  for (const Communication& each : trace.communications)
    EXPECT_DOUBLE_EQ(each.start, trace.tasks[0].end);
  ASSERT_EQ(std::ssize(trace.storage), ranks);
  for (const Storage& each : trace.storage)
    EXPECT_DOUBLE_EQ(each.end, trace.tasks[0].end + 2) << each.rank;
  std::filesystem::remove_all(rank_folder(scratch.path(), ranks - 1));
  EXPECT_THAT(error_of(scratch.path()), HasSubstr(kManifestName));
}
INSTANTIATE_TEST_SUITE_P(ReadTrace, Ranks, testing::Values(2, 3));

TEST(ReadTrace, FoldersOfTwoRunsAreNotOneTrace) {
  const test::ScratchDirectory scratch;
  write_trace(scratch.path(), two_tasks(), sample_manifest(0, 2));
  TraceManifest other = sample_manifest(1, 2);
  other.run = "another";
  write_trace(scratch.path(), two_tasks(), other);
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("the folder mixes traces"));
}

TEST(ReadTrace, UnseenEndsFollowTheBandwidthOfTheLink) {
  Trace trace;
  trace.ranks = {sample_manifest()};
  // 1 GB/s: 1000 bytes a microsecond; the second waits for the first.
  trace.transfers = {sample_transfer("a", 0, 1, 10'000, 0, 1),
                     sample_transfer("b", 0, 1, 10'000, 2, 3),
                     sample_transfer("c", 1, 0, 10'000, 2, 3)};
  for (Transfer& each : trace.transfers) each.measured = 0;
  align(trace);
  EXPECT_DOUBLE_EQ(trace.transfers[0].end, 10);
  EXPECT_DOUBLE_EQ(trace.transfers[1].end, 20);
  EXPECT_DOUBLE_EQ(trace.transfers[2].end, 12);
}

TEST(ReadTrace, OnlyRunsOfOneModelAreCompared) {
  Trace a;
  a.ranks = {sample_manifest()};
  Trace b = a;
  EXPECT_NO_THROW(expect_comparable(a, "a", b, "b"));
  b.ranks[0].model = "another";
  EXPECT_THROW(expect_comparable(a, "a", b, "b"), Error);
}

TEST(StepRange, IsParsed) {
  EXPECT_EQ(parse_step_range("3:5").first, 3);
  EXPECT_EQ(parse_step_range("3:5").last, 5);
  EXPECT_EQ(parse_step_range(":5").first, 1);
  EXPECT_EQ(parse_step_range("5:").last, StepRange().last);
  EXPECT_EQ(parse_step_range("5:5").last, 5);
  for (const char* bad : {"", ":", "5", "0:3", "-1:3", "5:4", "a:b", "1:2:3", "1 :2"})
    EXPECT_THROW(parse_step_range(bad), Error) << bad;
}

}  // namespace
}  // namespace dos::trace::trace_test
