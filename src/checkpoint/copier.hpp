// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "checkpoint/kept_file.hpp"
#include "io/checkpoint_directory.hpp"
#include "storage/engine.hpp"
#include "storage/rate_limit.hpp"

namespace dos::checkpoint {

/// Brings checkpoints from the first level to the second, one at a time, on a thread and with an
/// engine of its own. A copy that fails is given up with a warning; nothing is left of it. Of one
/// process of the run; all members are thread-safe.
class Copier {
 public:
  using Hold = io::CheckpointStore::Hold;

  /// The stores outlive the object. `bytes_per_second` 0: no limit.
  Copier(io::CheckpointStore& from, io::CheckpointStore& to,
         std::unique_ptr<storage::Backend> backend, double bytes_per_second);
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;
  /// Gives up what has not been copied.
  ~Copier();

  /// Memory that copies take, the engine's included.
  static Index bytes();

  /// As storage::Engine::observe(), of the copies' own engine.
  void observe(storage::Observer* observer) { engine_.observe(observer); }

  /// Asks for a copy of the checkpoint of a step, which `hold` keeps there until then. One that
  /// waits for its turn is left out when a newer is asked for; of the best ones the newest stays
  /// asked for until it is copied.
  void request(Index step, bool is_best, Hold hold);
  /// The checkpoint of a step is in the second level without a copy.
  void is_there(Index step);

  /// At the end of a run: brings the checkpoint of its last step, and the best one that is still
  /// asked for, without a limit to the rate. Waits. Returns "" when that of the step is there, else
  /// why not.
  std::string finish(Index step);

 private:
  struct Job {
    Index step = 0;
    bool is_best = false;
    std::optional<Hold> hold{};
  };

  void run();
  [[nodiscard]] bool has_job() const { return latest_ || (best_ && best_is_due_); }
  Job take_job();
  /// "", or why it failed.
  std::string copy(const Job& job);
  [[nodiscard]] bool is_wanted(Index step) const;
  void wait_turn(Index step, Index bytes);
  void ended(Job job, const std::string& fault);

  io::CheckpointStore& from_;
  io::CheckpointStore& to_;
  storage::Engine engine_;
  storage::RateLimit pace_;  ///< of the thread
  KeptFile kept_;

  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::optional<Job> latest_;
  std::optional<Job> best_;
  bool best_is_due_ = false;  ///< false: it has failed, and waits for the next request
  std::optional<Index> running_;
  std::optional<Index> last_;  ///< of the run, with which it ends
  Index newest_ = -1;          ///< step of the last that was copied, or was there
  std::string fault_;          ///< of the last copy; "": it was made
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace dos::checkpoint
