// SPDX-License-Identifier: Apache-2.0
// What a trace says of checkpoints is what was done: bytes, times, and who waited.
#include "train/storage_trace.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "storage/faulty_backend.hpp"
#include "trace/report/analysis.hpp"
#include "trace/trace.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::train::storage_trace_test {
namespace {

using test::Mishap;
using trace::Storage;
using trace::Trace;

constexpr Index kSteps = 6;
/// Microseconds: the clocks of traces and of storage are compared by reading both, which takes some
/// tenths of one.
constexpr double kClocks = 20;

class StorageTraceTest : public testing::Test {
 protected:
  StorageTraceTest() {
    config_.train.steps = kSteps;
    config_.train.checkpoint_every = 1;
    config_.train.keep = kSteps;
    config_.train.accumulate = 2;
  }

  /// A run with a checkpoint after each step, on a disk where each operation takes 1 ms, and its
  /// trace.
  Trace traced(const std::filesystem::path& out, const CheckpointReader* from = nullptr) {
    const auto slow = [] {
      return std::make_unique<test::FaultyBackend>(
          storage::make_backend(), [](Index, const storage::Operation&) {
            return Mishap{.delay = std::chrono::milliseconds(1)};
          });
    };
    trace::RecorderOptions options;
    options.folder = scratch_ / "trace";
    trace::Recorder recorder(session_, options, {});
    began_ = rt::trace_clock_us();
    {
      const auto trainer =
          test::make_trainer(session_, config_, out, {}, nullptr, rt::kHostNode, slow);
      if (is_told_) trainer->set_recorder(&recorder);
      bytes_ = 0;
      for (const auto& subgroup : trainer->parameters().layout().subgroups)
        bytes_ += 3 * subgroup.count * size_of(DType::kF32);  // AdamW: values and two moments
      if (from != nullptr)
        trainer->resume(*from);
      else
        trainer->start_fresh();
      trainer->run();
    }
    ended_ = rt::trace_clock_us();
    recorder.finish();
    return trace::read_trace(scratch_ / "trace");
  }

  /// The lines of the metrics that tell of a checkpoint, by its step.
  static std::map<Index, nlohmann::json> told(const std::filesystem::path& out) {
    std::map<Index, nlohmann::json> result;
    std::ifstream lines(out / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json json = nlohmann::json::parse(line);
      if (json.contains("checkpoint_step")) result[json["checkpoint_step"]] = json;
    }
    return result;
  }

  test::ScratchDirectory scratch_;
  config::TrainConfig config_ = test::tiny_config(test::write_tiny_dataset(scratch_));
  rt::Session session_{{.scheduler = "", .cpu_workers = 2}};
  bool is_told_ = true;
  Index bytes_ = 0;  ///< of a checkpoint's buffers
  double began_ = 0;
  double ended_ = 0;
};

TEST_F(StorageTraceTest, HasTheBytesAndWaitsOfTheMetrics) {
  const Trace trace = traced(scratch_ / "run");
  EXPECT_TRUE(trace.rank(0).complete) << "every thread found room";
  const std::vector<trace::CheckpointUse> checkpoints = trace::checkpoint_use(trace);
  const std::map<Index, nlohmann::json> metrics = told(scratch_ / "run");
  ASSERT_EQ(std::ssize(checkpoints), kSteps);
  ASSERT_GE(metrics.size(), 2U) << "of those that ended before the last step did";
  Index copied = 0;
  for (const trace::CheckpointUse& use : checkpoints) {
    EXPECT_EQ(use.bytes, bytes_) << use.step;
    copied += use.copied_bytes;
    const auto line = metrics.find(use.step);
    if (line == metrics.end()) continue;
    // Metrics have six digits, which is a byte here, and a trace has nanoseconds.
    ASSERT_LT(bytes_, 1'000'000);
    const auto told = [&](const char* name) { return line->second.at(name).get<double>(); };
    EXPECT_NEAR(static_cast<double>(use.bytes), told("mb_checkpoint") * 1e6, 0.5);
    EXPECT_NEAR(static_cast<double>(use.copied_bytes), told("mb_checkpoint_copied") * 1e6, 0.5);
    EXPECT_NEAR(use.waited / 1e3, told("ms_checkpoint_waited"), 5e-6 + 5e-6 * use.waited / 1e3);
  }
  EXPECT_GT(copied, 0) << "updates came before the disk";
}

TEST_F(StorageTraceTest, HasAllOfAFile) {
  const Trace trace = traced(scratch_ / "run");
  Index written = 0;
  Index flushes = 0;
  for (const Storage& row : trace.storage) {
    written += row.operation == "write" && row.step == kSteps ? row.bytes : 0;
    flushes += row.operation == "flush" && row.step == kSteps ? 1 : 0;
    EXPECT_EQ(row.purpose, "checkpoint");
    EXPECT_EQ(row.disk.empty(),
              row.operation == "hold" || row.operation == "copy" || row.operation == "wait");
  }
  const auto folder = io::CheckpointStore(scratch_ / "run").resolve("last");
  Index sizes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") sizes += static_cast<Index>(entry.file_size());
  EXPECT_EQ(written, sizes) << "headers and buffers";
  EXPECT_EQ(flushes, 2) << "one a file";
}

// A copy to the second level reads each byte of tensors once and writes it once, with headers, and
// is no part of what the checkpoint itself has cost.
TEST_F(StorageTraceTest, TellsCopiesFromCheckpoints) {
  config_.train.checkpoint_local = scratch_ / "local";
  config_.train.checkpoint_copy_every = kSteps;
  const Trace trace = traced(scratch_ / "run");
  Index read = 0;
  Index written = 0;
  for (const Storage& row : trace.storage) {
    if (row.purpose != "checkpoint copy") continue;
    EXPECT_EQ(row.step, kSteps) << "the last alone";
    read += row.operation == "read" ? row.bytes : 0;
    written += row.operation == "write" ? row.bytes : 0;
  }
  EXPECT_EQ(read, bytes_);
  EXPECT_GT(written, bytes_) << "headers and buffers";
  for (const trace::CheckpointUse& use : trace::checkpoint_use(trace))
    EXPECT_EQ(use.bytes, bytes_) << use.step;
}

/// The holds of each buffer, by step.
std::map<std::string, std::map<Index, Storage>> holds_of(const Trace& trace) {
  std::map<std::string, std::map<Index, Storage>> holds;
  for (const Storage& row : trace.storage)
    if (row.operation == "hold") {
      EXPECT_TRUE(holds[row.buffer].emplace(row.step, row).second) << "once a checkpoint";
    }
  return holds;
}

TEST_F(StorageTraceTest, TimesFollowFromEachOther) {
  const Trace trace = traced(scratch_ / "run");
  const auto holds = holds_of(trace);
  std::map<Index, double> copied_until;
  std::map<std::pair<std::string, Index>, Index> bytes;
  for (const Storage& row : trace.storage) {
    SCOPED_TRACE(row.operation + ' ' + row.buffer);
    EXPECT_GE(row.start, began_ - kClocks);
    EXPECT_GE(row.end, row.start);
    EXPECT_LE(row.end, ended_ + kClocks);
    if (row.buffer.empty()) continue;
    const Storage& hold = holds.at(row.buffer).at(row.step);
    // Copied or written in place, or both in turn: its writing begins while it is held.
    EXPECT_GE(row.start, hold.start - (row.operation == "wait" ? 1e9 : kClocks));
    EXPECT_LE(row.operation == "write" ? hold.start : row.end, hold.end + kClocks);
    if (row.operation == "write") bytes[{row.buffer, row.step}] += row.bytes;
    if (row.operation != "copy") continue;
    // One thread copies for a checkpoint.
    EXPECT_GE(row.start, copied_until[row.step] - kClocks);
    copied_until[row.step] = row.end;
  }
  for (const auto& [buffer, of_step] : holds) {
    EXPECT_EQ(std::ssize(of_step), kSteps) << buffer;
    double before = 0;
    for (const auto& [step, hold] : of_step) {
      EXPECT_GE(hold.start, before) << buffer;
      before = hold.end;
      EXPECT_EQ((bytes[{buffer, step}]), hold.bytes) << buffer;
    }
  }
}

TEST_F(StorageTraceTest, NoUpdateRunsWhileItsBuffersAreHeld) {
  const Trace trace = traced(scratch_ / "run");
  Index looked_at = 0;
  for (const auto& [buffer, of_step] : holds_of(trace))
    for (const trace::Task& task : trace.tasks) {
      if (task.phase != "update" || !buffer.ends_with("." + task.label)) continue;
      for (const auto& [step, hold] : of_step) {
        ++looked_at;
        if (step < task.step)
          EXPECT_LE(hold.end, task.start + kClocks) << buffer << " of step " << step;
        else
          EXPECT_GE(hold.start, task.end - kClocks) << buffer << " of step " << step;
      }
    }
  EXPECT_EQ(looked_at, std::ssize(holds_of(trace)) * kSteps * kSteps);
}

TEST_F(StorageTraceTest, HasWhatARestartReads) {
  config_.train.stop_after = 2;
  static_cast<void>(traced(scratch_ / "run"));
  std::filesystem::remove_all(scratch_ / "trace");
  config_.train.stop_after = 3;
  const CheckpointReader checkpoint(scratch_ / "run", "last");
  const Trace trace = traced(scratch_ / "run", &checkpoint);
  Index read = 0;
  for (const Storage& row : trace.storage)
    if (row.operation == "read") {
      read += row.bytes;
      EXPECT_EQ(row.step, 2);
      EXPECT_NE(row.disk, "");
    }
  EXPECT_EQ(read, bytes_);
}

TEST_F(StorageTraceTest, NothingIsRecordedUnlessItIsAskedFor) {
  is_told_ = false;
  const Trace trace = traced(scratch_ / "run");
  EXPECT_FALSE(trace.tasks.empty());
  EXPECT_TRUE(trace.storage.empty());
}

}  // namespace
}  // namespace dos::train::storage_trace_test
