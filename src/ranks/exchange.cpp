// SPDX-License-Identifier: Apache-2.0
#include "ranks/exchange.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "platform/processor_time.hpp"

namespace dos::ranks {
namespace {

using Direction = platform::MpiMessage::Direction;

/// Between two looks at messages under way: from the time in which a small one passes to one that
/// costs a core less than 5 % (a look at the messages of a few ranks takes about 20 us).
constexpr Seconds kShortestNap{20e-6};
constexpr Seconds kLongestNap{2e-3};
/// Without messages: MPI may still have to move what it has buffered.
constexpr Seconds kIdleNap{20e-3};
/// For the last words of a rank that stops.
constexpr Seconds kFarewell{0.5};
/// For the progress thread to notice that the rank stops, and for its farewell: far more than that
/// takes on a machine that is busy.
constexpr Seconds kPatience{10};

/// Stops the progress thread's work.
struct Stop {
  Failure failure;
  bool is_news;  ///< whether the other ranks may not know
};

/// Heartbeats have ids below 0, two a rank.
constexpr Index listening_id(Index peer) {
  return -1 - 2 * peer;
}
constexpr Index beating_id(Index peer) {
  return -2 - 2 * peer;
}

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

Exchange::Exchange(platform::MpiEnvironment& environment, const ExchangeOptions& options)
    : environment_(environment),
      timeout_(options.timeout),
      tags_(std::max(options.numbers, environment.size()), environment.largest_tag()),
      transfers_(environment),
      heartbeats_(environment.rank(), environment.size(), options.timeout, Clock::now()),
      beats_(static_cast<std::size_t>(environment.size())),
      thread_([this] { run_thread(); }) {}

Exchange::~Exchange() {
  bool is_closed = false;
  {
    const std::lock_guard lock(mutex_);
    is_closed = closing_;
  }
  if (!is_closed) static_cast<void>(abandon("it ended before its work was done"));
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (failed_) environment_.abandon();
}

void Exchange::configure(const ExchangeOptions& options) {
  // Its error is the caller's.
  static_cast<void>(Tags(std::max(options.numbers, ranks()), environment_.largest_tag()));
  const std::lock_guard lock(mutex_);
  new_options_ = options;
  timeout_ = options.timeout;
}

void Exchange::post(std::vector<Message> messages, Completion& completion) {
  if (messages.empty()) return completion.ended();
  auto batch = std::make_shared<Batch>(Batch{std::move(messages), &completion});
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(batch));
  }
  changed_.notify_all();
}

void Exchange::run(std::vector<Message> messages) {
  Arrival arrival;
  post(std::move(messages), arrival);
  arrival.wait();
  check();
}

void Exchange::check() const {
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  fail("{}; this is rank {}, at step {}", failure_->what, rank(), Index{step_});
}

bool Exchange::abandon(const std::string& why) noexcept {
  std::unique_lock lock(mutex_);
  if (closing_ || failed_) return true;
  abandoned_ = why;
  changed_.notify_all();
  return changed_.wait_for(lock, std::min(timeout(), kPatience),
                           [&] { return failed_ || thread_ended_; });
}

void Exchange::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  check();
}

void Exchange::observe(MessageObserver* observer) {
  const std::lock_guard lock(mutex_);
  observer_ = observer;
}

void Exchange::prepare_thread(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  preparation_ = std::move(work);
}

double Exchange::processor_share() {
  const Seconds age = Clock::now() - started_;
  return platform::thread_processor_seconds(thread()) / age.count();
}

Traffic Exchange::sent() const {
  const std::lock_guard lock(mutex_);
  return sent_;
}

void Exchange::run_thread() noexcept {
  try {
    for (Index peer = 0; peer < ranks(); ++peer)
      if (peer != rank()) listen(peer);
    while (!may_end()) {
      bool was_busy = false;
      progress(was_busy);
      sleep(was_busy);
    }
  } catch (const Stop& stop) {
    fail_with(stop.failure, stop.is_news);
  } catch (const platform::MpiError& error) {
    fail_with({error.peer(), fmt::format("rank {} is lost: {}", error.peer(), error.what())}, true);
  } catch (const std::exception& error) {
    fail_with({rank(), error.what()}, true);
  }
  std::unique_lock lock(mutex_);
  while (failed_ && !closing_) {
    ++rounds_;
    lock.unlock();
    drop_everything();
    lock.lock();
    if (posted_.empty() && !closing_) changed_.wait_for(lock, kIdleNap);
  }
  lock.unlock();
  drop_everything();
  lock.lock();
  thread_ended_ = true;
  rounds_ = kEnded;
  changed_.notify_all();
}

bool Exchange::may_end() {
  const std::lock_guard lock(mutex_);
  if (!closing_ || !posted_.empty() || !active_.empty()) return false;
  return said_done_ && heartbeats_.all_done() && transfers_.active() == 0;
}

void Exchange::progress(bool& was_busy) {
  ++rounds_;
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_) throw Stop{{rank(), *abandoned_}, true};
  }
  start_posted();
  ended_.clear();
  transfers_.test(ended_);
  const Clock::time_point now = Clock::now();
  for (const Id id : ended_) end_one(id, now);
  was_busy = !ended_.empty();
  if (was_busy) return;
  if (const auto failure = heartbeats_.silent(now)) throw Stop{*failure, true};
  bool says_done = false;
  {
    const std::lock_guard lock(mutex_);
    says_done = closing_ && !said_done_ && posted_.empty() && active_.empty();
  }
  // Its last beat must not overtake one that is still under way, nor get lost behind it.
  if (says_done && std::none_of(beats_.begin(), beats_.end(),
                                [](const BeatBuffers& beat) { return beat.sends; })) {
    send_beats({.state = Beat::kDone, .step = step_});
    said_done_ = true;
  } else if (!said_done_ && heartbeats_.is_due(now)) {
    send_beats({.state = Beat::kAlive, .step = step_});
  }
}

void Exchange::start_posted() {
  std::vector<std::shared_ptr<Batch>> batches;
  {
    std::unique_lock lock(mutex_);
    // Without the lock, for which those who post would wait. What is posted stays so when it
    // throws, and ends with all else.
    while (const auto prepare = std::exchange(preparation_, nullptr)) {
      lock.unlock();
      prepare();
      lock.lock();
    }
    if (const auto options = std::exchange(new_options_, std::nullopt)) {
      tags_ = Tags(std::max(options->numbers, ranks()), environment_.largest_tag());
      heartbeats_.set_timeout(options->timeout);
    }
    batches.swap(posted_);
    for (const auto& batch : batches)
      for (const Message& message : batch->messages)
        if (message.direction == Direction::kSend)
          sent_[message.name.kind] += std::ssize(message.bytes);
  }
  if (!batches.empty()) nap_ = Seconds(0);
  for (const auto& batch : batches) start(batch);
}

void Exchange::start(const std::shared_ptr<Batch>& batch) {
  batch->left = std::ssize(batch->messages);
  batch->started = Clock::now();
  // All of them first: one that cannot be started ends with the others.
  const Id first = next_id_;
  for (std::size_t i = 0; i < batch->messages.size(); ++i)
    active_.emplace(next_id_++, std::pair{batch, static_cast<Index>(i)});
  for (std::size_t i = 0; i < batch->messages.size(); ++i) {
    const Message& message = batch->messages[i];
    heartbeats_.begin_message(message.peer, batch->started);
    transfers_.start({message.direction, message.bytes, message.peer, tags_.of(message.name)},
                     first + static_cast<Id>(i));
  }
}

void Exchange::end_one(Id id, Clock::time_point now) {
  if (id >= 0) {
    const auto found = active_.find(id);
    const auto [batch, index] = found->second;
    active_.erase(found);
    const Message& message = batch->messages[static_cast<std::size_t>(index)];
    heartbeats_.end_message(message.peer);
    if (message.direction == Direction::kReceive) heartbeats_.heard(message.peer, now);
    {
      const std::lock_guard lock(mutex_);
      if (observer_ != nullptr) observer_->message_ended(message, batch->started, now);
    }
    if (--batch->left == 0) batch->completion->ended();
    return;
  }
  const Index peer = (-1 - id) / 2;
  BeatBuffers& beat = beats_[static_cast<std::size_t>(peer)];
  if (id == beating_id(peer)) {
    beat.sends = false;
    return;
  }
  if (const auto failure = heartbeats_.heard(peer, beat.in, now)) throw Stop{*failure, false};
  if (!heartbeats_.is_done(peer)) listen(peer);
}

void Exchange::listen(Index peer) {
  BeatBuffers& beat = beats_[static_cast<std::size_t>(peer)];
  transfers_.start({Direction::kReceive, bytes_of(beat.in), peer, tags_.of({.kind = Kind::kBeat})},
                   listening_id(peer));
}

void Exchange::send_beats(const Beat& beat) {
  for (Index peer = 0; peer < ranks(); ++peer) {
    BeatBuffers& buffers = beats_[static_cast<std::size_t>(peer)];
    if (peer == rank() || buffers.sends) continue;
    buffers.out = beat;
    buffers.sends = true;
    transfers_.start(
        {Direction::kSend, bytes_of(buffers.out), peer, tags_.of({.kind = Kind::kBeat})},
        beating_id(peer));
  }
}

void Exchange::fail_with(const Failure& failure, bool tells) noexcept {
  try {
    if (tells) send_beats(stopped_beat(step_, failure.what));
    const Clock::time_point end =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(kFarewell);
    const auto is_sending = [](const BeatBuffers& beat) { return beat.sends; };
    while (std::any_of(beats_.begin(), beats_.end(), is_sending) && Clock::now() < end) {
      ++rounds_;
      ended_.clear();
      transfers_.test(ended_);
      for (const Id id : ended_)
        if (id < 0 && id % 2 == 0) beats_[static_cast<std::size_t>((-1 - id) / 2)].sends = false;
    }
  } catch (const std::exception& error) {
    log::debug("the last words of rank {} did not arrive: {}", rank(), error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    failed_ = true;
  }
  changed_.notify_all();
}

void Exchange::drop_everything() noexcept {
  transfers_.forget();
  std::vector<std::shared_ptr<Batch>> batches;
  for (const auto& [id, place] : active_)
    if (std::find(batches.begin(), batches.end(), place.first) == batches.end())
      batches.push_back(place.first);
  active_.clear();
  {
    const std::lock_guard lock(mutex_);
    batches.insert(batches.end(), posted_.begin(), posted_.end());
    posted_.clear();
  }
  for (const auto& batch : batches) batch->completion->ended();
}

void Exchange::sleep(bool was_busy) {
  if (was_busy) {
    nap_ = Seconds(0);
    return;
  }
  const Seconds longest =
      active_.empty() ? std::min(kIdleNap, heartbeats_.interval()) : kLongestNap;
  nap_ = active_.empty() ? longest : std::clamp(2 * nap_, kShortestNap, longest);
  std::unique_lock lock(mutex_);
  if (posted_.empty() && !abandoned_) changed_.wait_for(lock, nap_);
}

}  // namespace dos::ranks
