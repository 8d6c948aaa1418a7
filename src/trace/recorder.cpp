// SPDX-License-Identifier: Apache-2.0
#include "trace/recorder.hpp"

#include <charconv>
#include <ctime>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json_text.hpp"
#include "base/log.hpp"
#include "trace/clock.hpp"

namespace dos::trace {
namespace {

/// Threads that may report beside the workers at a time: the submitting one, those of messages and
/// of storage, one a checkpoint under way.
constexpr Index kOtherThreads = 8;

Index next_generation() {
  static std::atomic<Index> generations{0};
  return ++generations;
}

std::filesystem::path prepare_folder(const std::filesystem::path& trace, int rank) {
  const std::filesystem::path folder = rank_folder(trace, rank);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  expect(!error, "--trace {}: cannot create the folder: {}; choose a writable place",
         trace.string(), error.message());
  expect(!std::filesystem::exists(folder / kManifestName, error),
         "--trace {} holds a trace already: choose another folder", trace.string());
  return folder;
}

double cpu_us_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

Index parse_step(std::string_view digits, const std::string& text, Index absent) {
  if (digits.empty()) return absent;
  Index value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  expect(error == std::errc() && end == digits.data() + digits.size() && value >= 1,
         "--trace-steps '{}': write A:B with steps from 1, A: or :B", text);
  return value;
}

}  // namespace

StepRange parse_step_range(const std::string& text) {
  const std::size_t colon = text.find(':');
  expect(colon != std::string::npos && text.size() > 1,
         "--trace-steps '{}': write A:B with steps from 1, A: or :B", text);
  const std::string_view view = text;
  const StepRange range{.first = parse_step(view.substr(0, colon), text, StepRange().first),
                        .last = parse_step(view.substr(colon + 1), text, StepRange().last)};
  expect(range.first <= range.last, "--trace-steps '{}': the first step is after the last", text);
  return range;
}

Recorder::Recorder(rt::Session& session, RecorderOptions options, TraceManifest manifest)
    : session_(session),
      options_(std::move(options)),
      generation_(next_generation()),
      is_open_(options_.steps.first <= 1),
      manifest_(std::move(manifest)),
      memory_(0) {
  const std::filesystem::path folder = prepare_folder(options_.folder, manifest_.rank);
  manifest_.first_step = options_.steps.first;
  manifest_.last_step = options_.steps.last == StepRange().last ? 0 : options_.steps.last;
  manifest_.epoch_us = -trace_offset_us<std::chrono::system_clock>();
  manifest_.machine = rt::view_machine();
  memory_ = MemorySampler(static_cast<int>(manifest_.machine.nodes.size()));
  files_ = std::make_unique<TraceFiles>(folder);
  write_durably(folder / kManifestName, json_text(to_json(manifest_), 2) + "\n");
  rings_ = std::make_shared<RingPool<Event>>(
      static_cast<std::size_t>(session.workers() + kOtherThreads), options_.events_a_thread);
  writer_ = std::thread([this] { write_until_stopped(); });
  rt::set_trace_sink(this);
}

Recorder::~Recorder() {
  detach();
}

void Recorder::begin_step(Index step) {
  if (wants(step)) is_open_ = true;
}

void Recorder::end_step(Index step) {
  if (wants(step)) {
    const std::lock_guard lock(mutex_);
    sample_memory(step);
  }
  if (step >= options_.steps.last) is_open_ = false;
}

void Recorder::detach() {
  if (!writer_.joinable()) return;
  session_.wait_all();
  rt::set_trace_sink(nullptr);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  writer_.join();
}

void Recorder::finish() {
  detach();
  write_manifest();
}

void Recorder::write_manifest() {
  for (const auto& ring : rings_->all()) manifest_.lost_events += ring->lost();
  manifest_.lost_events += events_without_ring_;
  if (manifest_.lost_events > 0)
    log::warn("trace {}: {} events found no room and are missing", options_.folder.string(),
              manifest_.lost_events);
  manifest_.complete = !gave_up_ && manifest_.lost_events == 0;
  if (manifest_.reason.empty() && manifest_.lost_events > 0)
    manifest_.reason = fmt::format("{} events found no room", manifest_.lost_events);
  manifest_.rows = files_->rows();
  try {
    write_durably(rank_folder(options_.folder, manifest_.rank) / kManifestName,
                  json_text(to_json(manifest_), 2) + "\n");
  } catch (const std::exception& error) {
    if (!gave_up_) give_up(error.what());
  }
}

Ring<Event>* Recorder::ring_of_this_thread() noexcept {
  thread_local ThreadRing<Event> mine;
  return mine.of(rings_, generation_);
}

void Recorder::record(const Event& event) noexcept {
  if (!is_open_) return;
  if (Ring<Event>* ring = ring_of_this_thread())
    ring->push(event);
  else
    ++events_without_ring_;
}

void Recorder::task_done(const rt::TaskTrace& task) noexcept {
  const Index step = task.record.tag.step;
  // Tasks of no step, initialisation and validation, belong to the time around them.
  if (step != 0 && !wants(step)) return;
  TaskEvent event{.task = task, .label = Name(task.record.label)};
  event.task.record.label = "";
  record(event);
}

void Recorder::copied(const rt::CopyTrace& copy) noexcept {
  record(CopyEvent{copy});
}

void Recorder::placed(const rt::PlacementTrace& placement) noexcept {
  if (!wants(placement.step)) return;
  PlacementEvent event{.placement = placement, .subgroup = Name(placement.subgroup)};
  event.placement.subgroup = "";
  record(event);
}

Index Recorder::next_handle() {
  const std::lock_guard lock(mutex_);
  return memory_.next();
}

void Recorder::handle_appeared(Index number, rt::RawHandle handle, const rt::HandleSpec& spec) {
  const std::lock_guard lock(mutex_);
  memory_.add(number, handle, spec);
}

void Recorder::handle_goes(Index number) {
  const std::lock_guard lock(mutex_);
  memory_.remove(number);
}

void Recorder::write_until_stopped() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, options_.interval, [&] { return stopping_; })) {
    sample_memory(0);
    write_pending(lock);
  }
  write_pending(lock);
  manifest_.writer_cpu_us = cpu_us_of_this_thread();
}

void Recorder::write_pending(std::unique_lock<std::mutex>& lock) {
  try {
    for (const auto& ring : rings_->all())
      ring->drain([&](const Event& event) {
        if (!gave_up_) files_->add(event, memory_);
      });
    for (const Memory& row : std::exchange(samples_, {}))
      if (!gave_up_) files_->add(row);
    if (gave_up_) return;
    lock.unlock();
    files_->flush();
    lock.lock();
  } catch (const std::exception& error) {
    give_up(error.what());
    if (!lock.owns_lock()) lock.lock();
  }
}

void Recorder::sample_memory(Index step) {
  if (!is_open_ || gave_up_) return;
  for (Memory& row : memory_.sample(session_.memory().now(), rt::trace_clock_us(), step))
    samples_.push_back(std::move(row));
}

void Recorder::give_up(const char* why) {
  gave_up_ = true;
  manifest_.reason = why;
  log::warn("the trace ends here, the run goes on: {}", why);
}

ScopedSpan::ScopedSpan(Recorder* recorder, std::string_view name, Index step)
    : recorder_(recorder) {
  if (recorder_ != nullptr)
    event_ = {.name = Name(name), .step = step, .start_us = rt::trace_clock_us(), .end_us = 0};
}

ScopedSpan::~ScopedSpan() {
  if (recorder_ == nullptr) return;
  event_.end_us = rt::trace_clock_us();
  recorder_->record(event_);
}

}  // namespace dos::trace
