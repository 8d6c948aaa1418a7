// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "checkpoint/kept_file.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/checkpoint_manifest.hpp"
#include "ranks/root_texts.hpp"
#include "storage/engine.hpp"
#include "storage/rate_limit.hpp"

namespace dos::checkpoint {

/// Brings checkpoints from the first level to the second, one at a time, on a thread and with an
/// engine of its own. A copy that fails is given up with a warning; nothing is left of it. Of rank
/// 0, and where the first level is in parts of the first rank of each other one, too: that does
/// what rank 0 says, as soon as it says it. All members are thread-safe.
class Copier {
 public:
  using Hold = io::CheckpointStore::Hold;

  /// The stores outlive the object. `bytes_per_second`: of this process; 0: no limit. `parts`:
  /// what they say to each other; nullopt: there are none.
  Copier(io::CheckpointStore& from, io::CheckpointStore& to,
         std::unique_ptr<storage::Backend> backend, double bytes_per_second,
         std::optional<ranks::RootTexts> parts = std::nullopt);
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;
  /// Gives up what has not been copied. Waits for that of rank 0, unless the exchange has failed.
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
  /// asked for, without a limit to the rate. Waits, on rank 0. Returns "" when that of the step is
  /// there, else on rank 0 why not.
  std::string finish(Index step);

 private:
  struct Job {
    Index step = 0;
    bool is_best = false;
    std::optional<Hold> hold{};
  };

  [[nodiscard]] bool leads() const { return !parts_ || parts_->is_root(); }
  void run();
  void lead();
  /// What lead() of rank 0 says.
  void follow();
  std::string copy_part_of(const std::string& job);
  void end_others();
  [[nodiscard]] bool has_job() const { return latest_ || (best_ && best_is_due_); }
  Job take_job();
  /// "", or why it failed.
  std::string copy(const Job& job);
  /// Others, of copy_checkpoint().
  void copy_with_others(const io::CheckpointManifest& part, const std::set<std::string>& kept,
                        const std::function<void()>& mine);
  [[nodiscard]] bool is_wanted(Index step) const;
  void wait_turn(Index step, Index bytes);
  void ended(Job job, const std::string& fault);

  io::CheckpointStore& from_;
  io::CheckpointStore& to_;
  storage::Engine engine_;
  std::optional<ranks::RootTexts> parts_;
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
  std::map<Index, Hold> held_;  ///< what rank 0, if it leads, may ask for
  std::thread thread_;
};

}  // namespace dos::checkpoint
