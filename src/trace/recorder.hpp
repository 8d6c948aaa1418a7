// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "rt/session.hpp"
#include "rt/trace_sink.hpp"
#include "trace/ring_pool.hpp"
#include "trace/trace_event.hpp"
#include "trace/trace_files.hpp"
#include "trace/trace_manifest.hpp"

namespace dos::trace {

/// Steps A to B, both included.
struct StepRange {
  Index first = 1;
  Index last = std::numeric_limits<Index>::max();
};

/// "A:B", "A:" or ":B"; steps count from 1. Throws Error naming the text.
StepRange parse_step_range(const std::string& text);

struct RecorderOptions {
  std::filesystem::path folder;  ///< of the trace; this rank writes into a folder in it
  StepRange steps;               ///< tasks of other steps, and what happens outside, are left out
  /// How often buffers are emptied and memory is looked at: that of the published study.
  std::chrono::milliseconds interval{20};
  std::size_t events_a_thread = 4096;  ///< that fit between two such moments
};

/// Records a run into the files of docs/traces.md. Every thread that reports has a buffer of its
/// own while it lives; one thread more writes. Nobody who reports waits, and what finds no room is
/// counted. When the disk refuses, the trace ends with one warning and the run goes on. One thread,
/// the submitting one, calls all members but record().
class Recorder final : public rt::TraceSink {
 public:
  /// Starts to receive from the runtime. Of `manifest` the caller gives run, program, policy,
  /// model, host, processor and ranks. Throws Error when the folder holds a trace already or cannot
  /// be written. Pre: the session outlives the recorder.
  Recorder(rt::Session& session, RecorderOptions options, TraceManifest manifest);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  /// Ends the trace; it counts as incomplete unless finish() was called.
  ~Recorder() override;

  /// The first task of the step is about to be submitted, or its last one has ended.
  void begin_step(Index step);
  void end_step(Index step);

  /// Waits for the session's tasks and writes what is left. Says in the log when the trace is not
  /// complete. Nothing is recorded after it.
  void finish();

  /// Takes what another module reports, on any thread. From a thread's second event on it neither
  /// blocks nor allocates.
  void record(const Event& event) noexcept;

  // rt::TraceSink
  void task_done(const rt::TaskTrace& task) noexcept override;
  void copied(const rt::CopyTrace& copy) noexcept override;
  void placed(const rt::PlacementTrace& placement) noexcept override;
  Index next_handle() override;
  void handle_appeared(Index number, rt::RawHandle handle, const rt::HandleSpec& spec) override;
  void handle_goes(Index number) override;

 private:
  void detach();
  void write_until_stopped();
  /// Under the lock, but for the writing itself: nobody waits for a disk.
  void write_pending(std::unique_lock<std::mutex>& lock);
  void sample_memory(Index step);
  void give_up(const char* why);
  void write_manifest();
  Ring<Event>* ring_of_this_thread() noexcept;
  [[nodiscard]] bool wants(Index step) const {
    return step >= options_.steps.first && step <= options_.steps.last;
  }

  rt::Session& session_;
  const RecorderOptions options_;
  const Index generation_;  ///< of recorders, for the threads' memory of their buffer
  std::atomic<bool> is_open_;
  std::shared_ptr<RingPool<Event>> rings_;
  std::atomic<Index> events_without_ring_{0};

  // The writing thread's, before it starts and after it ends the submitting thread's.
  TraceManifest manifest_;
  std::unique_ptr<TraceFiles> files_;
  std::atomic<bool> gave_up_{false};

  std::mutex mutex_;  ///< of what follows
  std::condition_variable stop_;
  bool stopping_ = false;
  MemorySampler memory_;
  std::vector<Memory> samples_;  ///< not written yet
  std::thread writer_;
};

/// Records what the submitting thread does from now to its end. Null: nothing is recorded.
class ScopedSpan {
 public:
  ScopedSpan(Recorder* recorder, std::string_view name, Index step);
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;
  ~ScopedSpan();

 private:
  Recorder* recorder_;
  SpanEvent event_;
};

}  // namespace dos::trace
