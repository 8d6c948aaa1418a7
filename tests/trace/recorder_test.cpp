// SPDX-License-Identifier: Apache-2.0
#include "trace/recorder.hpp"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "rt/tasks.hpp"
#include "scratch_directory.hpp"
#include "trace/trace.hpp"

namespace dos::trace::recorder_test {
namespace {

using testing::HasSubstr;

rt::SessionConfig two_workers() {
  rt::SessionConfig config;
  config.cpu_workers = 2;
  return config;
}

rt::HandleSpec buffer(Index count) {
  return {.name = "buffer",
          .type = DType::kF32,
          .count = count,
          .category = MemoryCategory::kGradients};
}

RecorderOptions into(const std::filesystem::path& folder) {
  RecorderOptions options;
  options.folder = folder;
  return options;
}

/// Submits and awaits `count` tasks of a step.
void run_step(rt::Submitter& submitter, const rt::Handle& handle, Index step, Index count) {
  static const test::Body nothing = [](const rt::TaskView&) {};
  submitter.set_tag({rt::Phase::kUpdate, step, 3});
  for (Index i = 0; i < count; ++i)
    test::submit_body(submitter, nothing, {&handle}, {.priority = 0, .label = "a subgroup"});
  submitter.profile().take(step);
}

TEST(Recorder, WritesEveryTask) {
  const test::ScratchDirectory scratch;
  rt::Session session(two_workers());
  {
    Recorder recorder(session, into(scratch / "trace"), {});
    rt::Handle handle(session, buffer(10));
    rt::Submitter submitter(session);
    for (Index step = 1; step <= 3; ++step) {
      recorder.begin_step(step);
      run_step(submitter, handle, step, 5);
      recorder.end_step(step);
    }
    { const ScopedSpan span(&recorder, "checkpoint", 3); }
    recorder.record(CommunicationEvent{Name("reduce"), 1, 64, 2, 5, 6});
    recorder.record(StorageEvent{.operation = "write",
                                 .purpose = "checkpoint",
                                 .disk = Name("/a \"disk\", this"),
                                 .buffer = Name("parameter.a"),
                                 .category = MemoryCategory::kParameters,
                                 .bytes = 4096,
                                 .step = 3,
                                 .start_us = 7,
                                 .end_us = 8.5});
    recorder.finish();
  }
  const Trace trace = read_trace(scratch / "trace");
  EXPECT_TRUE(trace.rank(0).complete);
  ASSERT_EQ(trace.tasks.size(), 15U);
  double before = 0;
  for (const Task& task : trace.tasks) {
    EXPECT_EQ(task.codelet, "dos.test_body.v1");
    EXPECT_EQ(task.label, "a subgroup");
    EXPECT_EQ(task.phase, "update");
    EXPECT_EQ(task.micro_batch, 3);
    EXPECT_EQ(task.bytes, 40);
    // One chain of RW tasks.
    EXPECT_GE(task.start, before);
    EXPECT_LE(task.submitted, task.start);
    EXPECT_LE(task.ready, task.start);
    EXPECT_LE(task.taken, task.start);
    EXPECT_LE(task.start, task.end);
    before = task.end;
  }
  Index rows = 0;
  for (const Memory& row : trace.memory)
    if (row.category == "gradients") {
      EXPECT_EQ(row.bytes, row.step == 0 && row.time < trace.tasks[0].start ? row.bytes : 40);
      rows += row.step > 0 ? 1 : 0;
    }
  EXPECT_EQ(rows, 3);
  ASSERT_EQ(trace.spans.size(), 1U);
  EXPECT_EQ(trace.spans[0].name, "checkpoint");
  ASSERT_EQ(trace.communications.size(), 1U);
  EXPECT_EQ(trace.communications[0].bytes, 64);
  ASSERT_EQ(trace.storage.size(), 1U);
  const Storage& row = trace.storage[0];
  EXPECT_EQ(row.operation, "write");
  EXPECT_EQ(row.purpose, "checkpoint");
  EXPECT_EQ(row.disk, "/a \"disk\", this");
  EXPECT_EQ(row.buffer, "parameter.a");
  EXPECT_EQ(row.category, "parameters");
  EXPECT_EQ(row.bytes, 4096);
  EXPECT_EQ(row.step, 3);
  EXPECT_DOUBLE_EQ(row.end - row.start, 1.5);
}

TEST(Recorder, KeepsToItsSteps) {
  const test::ScratchDirectory scratch;
  rt::Session session(two_workers());
  RecorderOptions options = into(scratch / "trace");
  options.steps = {2, 3};
  {
    Recorder recorder(session, options, {});
    rt::Handle handle(session, buffer(1));
    rt::Submitter submitter(session);
    for (Index step = 1; step <= 5; ++step) {
      recorder.begin_step(step);
      run_step(submitter, handle, step, 2);
      const ScopedSpan span(&recorder, "wait", step);
      recorder.end_step(step);
    }
    recorder.finish();
  }
  const Trace trace = read_trace(scratch / "trace");
  ASSERT_EQ(trace.tasks.size(), 4U);
  EXPECT_EQ(trace.tasks.front().step, 2);
  EXPECT_EQ(trace.tasks.back().step, 3);
  EXPECT_EQ(trace.rank(0).first_step, 2);
  EXPECT_EQ(trace.rank(0).last_step, 3);
}

TEST(Recorder, LeavesNothingBehindWhenItIsOff) {
  rt::Session session(two_workers());
  rt::Handle handle(session, buffer(1));
  rt::Submitter submitter(session);
  run_step(submitter, handle, 1, 2);
  bool used = false;
  rt::with_trace_sink([&](rt::TraceSink&) { used = true; });
  EXPECT_FALSE(used);
}

TEST(Recorder, ManyThreadsReport) {
  constexpr Index kThreads = 6;
  constexpr Index kEach = 500;
  const test::ScratchDirectory scratch;
  rt::Session session(two_workers());
  {
    Recorder recorder(session, into(scratch / "trace"), {});
    std::vector<std::thread> threads;
    for (Index thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        for (Index i = 0; i < kEach; ++i)
          recorder.record(CommunicationEvent{Name("send"), thread, i, 1, 0, 1});
      });
    for (std::thread& thread : threads) thread.join();
    recorder.finish();
  }
  const Trace trace = read_trace(scratch / "trace");
  ASSERT_EQ(std::ssize(trace.communications), kThreads * kEach);
  std::vector<Index> next(kThreads, 0);
  for (const Communication& each : trace.communications)
    EXPECT_EQ(each.bytes, next[static_cast<std::size_t>(each.peer)]++) << "in order";
}

/// A checkpoint is written by a thread of its own: there are more of them than rings.
TEST(Recorder, ThreadsMayComeAndGo) {
  constexpr Index kThreads = 50;
  const test::ScratchDirectory scratch;
  rt::Session session(two_workers());
  {
    Recorder recorder(session, into(scratch / "trace"), {});
    for (Index i = 0; i < kThreads; ++i)
      std::thread([&] { recorder.record(SpanEvent{Name("a"), i, 0, 1}); }).join();
    recorder.finish();
  }
  const Trace trace = read_trace(scratch / "trace");
  EXPECT_TRUE(trace.rank(0).complete);
  EXPECT_EQ(std::ssize(trace.spans), kThreads);
}

TEST(Recorder, CountsWhatFindsNoRoom) {
  const test::ScratchDirectory scratch;
  rt::Session session(two_workers());
  RecorderOptions options = into(scratch / "trace");
  options.events_a_thread = 2;
  options.interval = std::chrono::hours(1);
  {
    TraceManifest manifest;
    manifest.configuration = nlohmann::json::object();
    Recorder recorder(session, options, manifest);
    for (int i = 0; i < 5; ++i) recorder.record(SpanEvent{Name("wait"), 1, 0, 1});
    recorder.finish();
  }
  const Trace trace = read_trace(scratch / "trace");
  EXPECT_EQ(trace.spans.size(), 2U);
  EXPECT_EQ(trace.rank(0).lost_events, 3);
  ASSERT_EQ(trace.warnings.size(), 1U);
  EXPECT_THAT(trace.warnings[0], HasSubstr("3 events"));
}

TEST(Recorder, AFullDiskEndsTheTraceAndNotTheRun) {
  const test::ScratchDirectory scratch;
  const std::filesystem::path part = rank_folder(scratch / "trace", 0);
  std::filesystem::create_directories(part);
  // Writing to it says that no space is left.
  std::filesystem::create_symlink("/dev/full", part / Task::kFile);
  rt::Session session(two_workers());
  {
    Recorder recorder(session, into(scratch / "trace"), {});
    rt::Handle handle(session, buffer(1));
    rt::Submitter submitter(session);
    for (Index step = 1; step <= 5; ++step) {
      run_step(submitter, handle, step, 100);
      recorder.end_step(step);
    }
    recorder.finish();
  }
  const TraceManifest manifest = read_manifest(part / kManifestName);
  EXPECT_FALSE(manifest.complete);
  EXPECT_THAT(manifest.reason, HasSubstr("No space left on device"));
}

TEST(Recorder, WithoutFinishTheTraceIsNotComplete) {
  const test::ScratchDirectory scratch;
  rt::Session session(two_workers());
  { const Recorder recorder(session, into(scratch / "trace"), {}); }
  EXPECT_FALSE(read_trace(scratch / "trace").rank(0).complete);
}

TEST(Recorder, RefusesAFolderThatHoldsATrace) {
  const test::ScratchDirectory scratch;
  rt::Session session(two_workers());
  {
    Recorder recorder(session, into(scratch / "trace"), {});
    recorder.finish();
  }
  EXPECT_THROW(Recorder(session, into(scratch / "trace"), {}), Error);
  write_durably(scratch / "file", "");
  EXPECT_THROW(Recorder(session, into(scratch.path() / "file" / "trace"), {}), Error);
}

}  // namespace
}  // namespace dos::trace::recorder_test
