// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/copier.hpp"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "checkpoint/copy.hpp"
#include "checkpoint/fault_of.hpp"

namespace dos::checkpoint {
namespace {

/// Few, so that what a step writes to the same device has its turn soon.
constexpr storage::EngineOptions kOptions{.depth = 2};

}  // namespace

Copier::Copier(io::CheckpointStore& from, io::CheckpointStore& to,
               std::unique_ptr<storage::Backend> backend, double bytes_per_second,
               std::optional<ranks::RootTexts> parts)
    : from_(from),
      to_(to),
      engine_(kOptions, std::move(backend)),
      parts_(std::move(parts)),
      pace_(bytes_per_second) {
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
  return RangeCopy::bytes();
}

void Copier::request(Index step, bool is_best, Hold hold) {
  const std::lock_guard lock(mutex_);
  if (!leads()) {
    held_.try_emplace(step, std::move(hold));
    return;
  }
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
  if (!leads()) {
    // Rank 0 may ask for this one, and for the best, which a link keeps.
    std::erase_if(held_, [&](const auto& held) { return held.first != step; });
    return "";
  }
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
  if (!leads()) return follow();
  lead();
  if (parts_) end_others();
}

void Copier::end_others() {
  try {
    parts_->from_root("");
  } catch (const Error&) {
    // They know of the failure themselves.
  }
}

void Copier::follow() {
  try {
    for (std::string job = parts_->from_root(""); !job.empty(); job = parts_->from_root(""))
      parts_->to_root(copy_part_of(job));
  } catch (const std::exception& error) {
    // A rank was lost, which ends the run.
    log::debug("copies of checkpoints: {}", error.what());
  }
}

/// Returns what rank 0 is told: which part it is, or why it was not copied.
std::string Copier::copy_part_of(const std::string& job) {
  Index part = 0;
  const std::string fault = fault_of([&] {
    const nlohmann::json said =
        parse_json_object(job, "what rank 0 says", "start all ranks with the same program");
    const auto step = said.at("step").get<Index>();
    const auto wanted = said.at("wanted").get<std::set<Index>>();
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(held_, [&](const auto& held) {
        return held.first <= step && !wanted.contains(held.first);
      });
    }
    part = copy_part(engine_, from_, to_, step, said.at("identity").get<std::uint64_t>(),
                     said.at("kept").get<std::set<std::string>>(),
                     [&](Index bytes) { wait_turn(step, bytes); });
  });
  return nlohmann::json{{"fault", fault}, {"part", part}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Copier::lead() {
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
  return fault_of([&] {
    copy_checkpoint(
        engine_, from_, to_, job.step, job.is_best, kept_,
        [&](Index bytes) { wait_turn(job.step, bytes); },
        [&](const io::CheckpointManifest& part, const std::set<std::string>& kept,
            const std::function<void()>& mine) {
          if (part.parts == 1) return mine();
          expect(parts_.has_value(), "its parts are on the disks of {} nodes", part.parts);
          copy_with_others(part, kept, mine);
        });
  });
}

void Copier::copy_with_others(const io::CheckpointManifest& part, const std::set<std::string>& kept,
                              const std::function<void()>& mine) {
  std::set<Index> wanted{part.step};
  {
    const std::lock_guard lock(mutex_);
    for (const std::optional<Job>* each : {&latest_, &best_})
      if (*each) wanted.insert((*each)->step);
  }
  parts_->from_root(nlohmann::json{
      {"step", part.step},
      {"identity", io::identity_of(part)},
      {"wanted", wanted},
      {"kept", kept}}.dump());
  const std::string my_fault = fault_of(mine);
  std::vector<std::string> said = parts_->to_root("");
  expect(my_fault.empty(), "{}", my_fault);
  said.erase(said.begin());
  std::set<Index> copied{part.part};
  for (const std::string& text : said) {
    const nlohmann::json other = parse_json_object(text, "what the first rank of a node says",
                                                   "start all ranks with the same program");
    const auto fault = other.at("fault").get<std::string>();
    expect(fault.empty(), "{}", fault);
    copied.insert(other.at("part").get<Index>());
  }
  expect(std::ssize(copied) == part.parts, "{} of its {} parts are there", copied.size(),
         part.parts);
}

/// Throws Error when the copy is not wanted any more.
void Copier::wait_turn(Index step, Index bytes) {
  std::unique_lock lock(mutex_);
  if (!last_ && !ends_) {
    const auto turn = pace_.begin(bytes, storage::RateLimit::Clock::now());
    changed_.wait_until(lock, turn, [&] { return ends_ || last_; });
  }
  expect(is_wanted(step), "the run has ended");
}

/// Under the lock: at the end of a run nothing comes before its last checkpoint.
bool Copier::is_wanted(Index step) const {
  // Rank 0 knows, and waits for what it has asked for.
  if (!leads()) return true;
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
