// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/copier.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "checkpoint/copy.hpp"

namespace dos::checkpoint {
namespace {

/// Few, so that what a step writes to the same device has its turn soon.
constexpr storage::EngineOptions kOptions{.depth = 2};

}  // namespace

Copier::Copier(io::CheckpointStore& from, io::CheckpointStore& to,
               std::unique_ptr<storage::Backend> backend, double bytes_per_second)
    : from_(from), to_(to), engine_(kOptions, std::move(backend)), pace_(bytes_per_second) {
  thread_ = std::thread([this] { run(); });
}

Copier::~Copier() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Index Copier::bytes() {
  return copy_bytes();
}

void Copier::request(Index step, bool is_best, Hold hold) {
  const std::lock_guard lock(mutex_);
  best_is_due_ = true;
  // The newer one is the better `last`, too.
  if (is_best) latest_.reset();
  std::optional<Job>& place = is_best ? best_ : latest_;
  place.reset();
  place.emplace(Job{.step = step, .is_best = is_best, .hold = std::move(hold)});
  changed_.notify_all();
}

void Copier::is_there(Index step) {
  const std::lock_guard lock(mutex_);
  newest_ = step;
}

std::string Copier::finish(Index step) {
  std::unique_lock lock(mutex_);
  last_ = step;
  changed_.notify_all();
  const auto settle = [&] { changed_.wait(lock, [&] { return !has_job() && !running_; }); };
  // Nothing is slowed down by it any more, so one failure is not taken for an answer.
  constexpr int kTries = 2;
  for (int i = 0; i < kTries && newest_ != step; ++i) {
    if (best_ && best_->step == step)
      best_is_due_ = true;
    else if (running_ != step)
      latest_.emplace(Job{.step = step});
    changed_.notify_all();
    settle();
  }
  if (newest_ != step) return fault_;
  best_is_due_ = true;
  changed_.notify_all();
  settle();
  return "";
}

void Copier::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || has_job(); });
    if (ends_) return;
    Job job = take_job();
    running_ = job.step;
    lock.unlock();
    const std::string fault = copy(job);
    lock.lock();
    ended(std::move(job), fault);
  }
}

/// Under the lock. In the order of steps; at the end of a run its last one first.
Copier::Job Copier::take_job() {
  const bool has_both = latest_ && best_ && best_is_due_;
  const bool takes_latest = has_both ? last_ || latest_->step < best_->step : latest_.has_value();
  return *std::exchange(takes_latest ? latest_ : best_, std::nullopt);
}

std::string Copier::copy(const Job& job) {
  try {
    copy_checkpoint(engine_, from_, to_, job.step, job.is_best, kept_,
                    [&](Index bytes) { wait_turn(job.step, bytes); });
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Throws Error when the copy is not wanted any more.
void Copier::wait_turn(Index step, Index bytes) {
  std::unique_lock lock(mutex_);
  if (!last_) {
    const auto turn = pace_.begin(bytes, storage::RateLimit::Clock::now());
    changed_.wait_until(lock, turn, [&] { return ends_ || last_; });
  }
  expect(is_wanted(step), "the run has ended");
}

/// Under the lock: at the end of a run nothing comes before its last checkpoint.
bool Copier::is_wanted(Index step) const {
  return !ends_ && (!last_ || step == *last_ || newest_ == *last_);
}

/// Under the lock.
void Copier::ended(Job job, const std::string& fault) {
  running_.reset();
  fault_ = fault;
  if (fault.empty()) {
    newest_ = std::max(newest_, job.step);
  } else {
    if (is_wanted(job.step))
      log::warn("step {}: its checkpoint was not copied: {}{}", job.step, fault,
                last_ ? "" : "; training goes on");
    // It stays asked for, unless there is a newer one.
    if (job.is_best && !best_) {
      best_.emplace(std::move(job));
      best_is_due_ = false;
    }
  }
  changed_.notify_all();
}

}  // namespace dos::checkpoint
