// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/event.hpp"
#include "platform/mpi.hpp"
#include "ranks/heartbeat.hpp"
#include "ranks/tags.hpp"
#include "ranks/traffic.hpp"

namespace dos::ranks {

/// A message to or from another rank, and what it is counted as.
struct Message {
  platform::MpiMessage::Direction direction = platform::MpiMessage::Direction::kSend;
  std::span<std::byte> bytes;  ///< only read by a send
  Index peer = 0;
  MessageName name;
};

/// Told that messages have ended.
class Completion {
 public:
  /// Called once, on the progress thread, which it must not keep. After a failure the messages have
  /// ended without having arrived: Exchange::check() tells.
  virtual void ended() noexcept = 0;

 protected:
  ~Completion() = default;
};

/// Waits for messages. Not on threads of StarPU.
class Arrival final : public Completion {
 public:
  void ended() noexcept override { event_.set(); }
  void wait() { event_.wait(); }

 private:
  Event event_;
};

/// Told of messages that were sent or have arrived, heartbeats aside.
class MessageObserver {
 public:
  /// On the progress thread, which it must not keep. The bytes may be another's by now.
  virtual void message_ended(const Message& message, Clock::time_point started,
                             Clock::time_point ended) noexcept = 0;

 protected:
  ~MessageObserver() = default;
};

struct ExchangeOptions {
  Seconds timeout{60};  ///< a rank that is silent for longer is lost
  Index numbers = 0;    ///< most numbers of a kind of message (MessageName); at least the ranks
};

/// All messages between this rank and the others: one thread starts and tests them, so that no
/// worker of StarPU and no submitting thread ever waits inside MPI. It sleeps when nothing is under
/// way, and between looks at what is. Ranks send each other heartbeats.
///
/// A failure (a rank silent for the time-out, stopped by an error of its own, or given up by MPI)
/// ends every message that is under way or posted later, so that the task graph drains with
/// whatever the buffers hold; nothing made after failed() turned true may be kept. Thread-safe. One
/// at a time, and on every rank.
class Exchange {
 public:
  Exchange(platform::MpiEnvironment& environment, const ExchangeOptions& options);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  /// Without close() before it: tells the other ranks that this one has stopped. Waits for the
  /// progress thread: pre: abandon(), where it was called, has returned true.
  ~Exchange();

  [[nodiscard]] Index rank() const { return environment_.rank(); }
  [[nodiscard]] Index ranks() const { return environment_.size(); }

  /// Other options from now on. Pre: no messages but heartbeats are under way here or, with those
  /// that this rank is to receive, elsewhere; all ranks set the same.
  void configure(const ExchangeOptions& options);

  /// Starts all messages; `completion` is told when the last has ended. Bytes and completion live
  /// until then. An empty list ends at once.
  void post(std::vector<Message> messages, Completion& completion);
  /// The same, and waits. Not for threads of StarPU. Throws Error after a failure.
  void run(std::vector<Message> messages);

  [[nodiscard]] Seconds timeout() const { return timeout_; }
  /// How often the progress thread has looked for something to do; kEnded: it never will again.
  [[nodiscard]] Index rounds() const { return rounds_; }
  static constexpr Index kEnded = -1;

  /// The step that heartbeats speak of.
  void set_step(Index step) { step_ = step; }
  [[nodiscard]] Index step() const { return step_; }
  /// Whether something has failed.
  [[nodiscard]] bool failed() const { return failed_; }
  /// Throws Error naming the rank and its step when something has failed.
  void check() const;

  /// Tells the other ranks that this one has stopped because of `why`, which fails them. For the
  /// way out after an error. Waits at most the time-out, and 10 s, for the progress thread. False:
  /// the thread is inside a call that does not return (a queue of MPI whose other end was killed, a
  /// GPU or a StarPU that hangs); then no message ever ends, nor does the destructor, and the
  /// program must end without it.
  [[nodiscard]] bool abandon(const std::string& why) noexcept;
  /// Waits until all messages have ended and all ranks are here. Throws Error after a failure.
  void close();

  /// From now on; null: nobody. The one before is told nothing any more.
  void observe(MessageObserver* observer);

  /// Runs `work` on the progress thread before it starts another message: for what a thread must do
  /// before MPI may use a GPU's memory. It must not call the exchange; what it throws is a failure.
  void prepare_thread(std::function<void()> work);
  /// The progress thread, to be bound to cores. Pre: before close().
  [[nodiscard]] std::thread::native_handle_type thread() { return thread_.native_handle(); }
  /// Part of a core that the progress thread has used since it started. Pre: before close().
  [[nodiscard]] double processor_share();

  /// Bytes of the messages sent so far.
  [[nodiscard]] Traffic sent() const;

 private:
  struct Batch {
    std::vector<Message> messages;
    Completion* completion;
    Index left = 0;
    Clock::time_point started{};
  };
  using Id = Index;

  void run_thread() noexcept;
  void progress(bool& was_busy);
  void start_posted();
  void start(const std::shared_ptr<Batch>& batch);
  void end_one(Id id, Clock::time_point now);
  void send_beats(const Beat& beat);
  void listen(Index peer);
  /// `tells`: the other ranks may not know.
  void fail_with(const Failure& failure, bool tells) noexcept;
  void drop_everything() noexcept;
  void sleep(bool was_busy);
  [[nodiscard]] bool may_end();

  platform::MpiEnvironment& environment_;
  const Clock::time_point started_ = Clock::now();
  std::atomic<Index> step_{0};
  std::atomic<bool> failed_{false};
  std::atomic<Index> rounds_{0};
  std::atomic<Seconds> timeout_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Batch>> posted_;
  std::optional<ExchangeOptions> new_options_;
  std::function<void()> preparation_;
  std::optional<Failure> failure_;
  std::optional<std::string> abandoned_;
  bool closing_ = false;
  bool thread_ended_ = false;
  Traffic sent_;
  MessageObserver* observer_ = nullptr;

  // Of the progress thread.
  Tags tags_;
  platform::MpiTransfers transfers_;
  Heartbeats heartbeats_;
  std::map<Id, std::pair<std::shared_ptr<Batch>, Index>> active_;  ///< batch, message of it
  Id next_id_ = 0;
  struct BeatBuffers {
    Beat in;
    Beat out;
    bool sends = false;  ///< `out` is under way
  };
  std::vector<BeatBuffers> beats_;  ///< by rank
  std::vector<Id> ended_;
  bool said_done_ = false;
  Seconds nap_{0};

  std::thread thread_;  ///< last: starts when all else is there
};

}  // namespace dos::ranks
