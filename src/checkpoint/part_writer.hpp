// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/contents.hpp"
#include "checkpoint/piece.hpp"
#include "checkpoint/step_sums.hpp"
#include "codelets/update/update_sums.hpp"
#include "io/safetensors_layout.hpp"
#include "optim/optimizer.hpp"
#include "rt/access.hpp"
#include "storage/engine.hpp"
#include "storage/pages.hpp"

namespace dos::checkpoint {

/// What was done with the parts of a rank.
struct PartsWritten {
  std::string fault;       ///< of the first transfer that failed; "": all were written
  std::string bad_tensor;  ///< the first with an element that is not finite; "": none
  std::vector<PieceRecord> pieces;
  Index bytes = 0;
  Index copied_bytes = 0;  ///< of them, from buffers of this
  Index summed_bytes = 0;  ///< of them, whose sums updates had not made
  double waited_s = 0;     ///< for which an update had nothing to wait for but an access of this
  /// When the first buffer of what is trained was granted; the epoch where there is none.
  std::chrono::steady_clock::time_point began{};
};

/// Brings the parts that a rank owns to the files of a checkpoint while training goes on: by read
/// accesses to their buffers, in the place that they have in the task graph. A buffer is held until
/// its bytes are written, or, when its next update has nothing else to wait for, until they are
/// copied, as far as the buffers go. The pieces under way are bounded, so that those that an
/// update waits for are next.
class PartWriter {
 public:
  static constexpr Index kLeastBuffers = 4;   ///< of kPieceBytes, for copies
  static constexpr Index kMostUnderWay = 16;  ///< pieces that are written from where they lie

  /// What is given outlives the object. `step`: that the tasks submitted last make. `sums`: where
  /// its updates may have left sums; null: nowhere. `buffers`: of kPieceBytes, for copies, as far
  /// as the system gives them.
  PartWriter(storage::Engine& engine, std::span<const FileContents> files, Index step,
             const StepSums* sums, Index buffers = kLeastBuffers);
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;
  /// Waits until the accesses of hurry() were granted. Pre: after request(), run() has returned.
  ~PartWriter();

  /// Of transfers that serve no buffer.
  [[nodiscard]] storage::Label label() const {
    return {.purpose = storage::Purpose::kCheckpoint, .step = step_};
  }

  // On the submitting thread:

  /// Requests the accesses, behind the tasks submitted so far.
  void request();
  /// The next updates have been submitted: from the moment when all else that they wait for is
  /// there, their buffers are hurried. Only the first call matters.
  void hurry(const optim::Optimizer& optimizer);
  /// Whether the accesses of hurry() were granted, so that the destructor does not wait.
  [[nodiscard]] bool is_idle() const;

  // On another thread:

  /// Where a file of the contents is written to.
  struct Target {
    const storage::DirectFile& file;
    const io::SafetensorsLayout& layout;
  };
  /// Writes all parts, one target a file, but those of files without one; gives all buffers back;
  /// returns when nothing is under way any more. Without targets, or after cancel(), nothing is
  /// written. A fault ends the writing, not the giving back.
  PartsWritten run(std::span<const std::optional<Target>> targets);
  /// Waits until an update has waited for so long for a buffer that is held: true; or until all
  /// were given back: false.
  [[nodiscard]] bool holds_up(std::chrono::duration<double> patience);
  /// Any thread.
  void cancel();
  /// Any thread: run() gives all buffers back, also those whose bytes are on their way to a device
  /// that does not take them, and ends with this fault when the device has. False, and nothing
  /// changes, when all have been given back.
  bool give_up(std::string fault);

 private:
  using Clock = std::chrono::steady_clock;
  struct Read;
  struct Sums;
  struct Hurry;

  void add_sums(const StepSums& sums);
  void granted(Read& read, void* data) noexcept;
  void known(Sums& sums) noexcept;
  void make_ready(Read& read);
  void due(Hurry& hurry) noexcept;
  Read* next_read();
  /// Under the lock: whether an update waits for a buffer since then, or longer.
  [[nodiscard]] bool is_awaited_since(Clock::time_point then) const;
  void write_next(std::unique_lock<std::mutex>& lock, Read& read, const Target& target);
  storage::Pages* take_buffer();
  codelets::ContentSum sum_of(const Read& read, const Extent& piece);
  void written(Read& read, storage::Pages* buffer, const std::string& fault);
  void let_go(Read& read, Index pieces);
  void let_all_go(std::unique_lock<std::mutex>& lock,
                  std::span<const std::optional<Target>> targets);
  void give_back_unwritten(std::span<const std::optional<Target>> targets);
  void end_accesses(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] storage::Label label_of(const Read& read) const;
  void tell(const Read& read, storage::Activity activity, Index bytes, Clock::time_point start,
            Clock::time_point end) const;

  storage::Engine& engine_;
  std::span<const FileContents> files_;
  Index step_;
  Index most_buffers_;
  std::vector<std::unique_ptr<Read>> reads_;  ///< in the order in which updates need them
  std::vector<std::unique_ptr<Sums>> sums_;
  std::vector<std::unique_ptr<Hurry>> hurries_;

  mutable std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::condition_variable all_back_;            ///< no access is open
  std::set<std::size_t> granted_;               ///< positions of reads with pieces to be submitted
  std::vector<Read*> finished_;                 ///< whose access can end
  std::map<Index, Clock::time_point> hurried_;  ///< subgroups, since when
  Index open_ = 0;                              ///< accesses that have not ended
  Index under_way_ = 0;                         ///< pieces
  Index in_place_ = 0;                          ///< of them from where they lie
  Index pending_hurries_ = 0;
  bool is_cancelled_ = false;
  bool is_given_up_ = false;
  std::vector<std::unique_ptr<storage::Pages>> buffers_;
  std::vector<storage::Pages*> free_buffers_;
  PartsWritten result_;
};

}  // namespace dos::checkpoint
