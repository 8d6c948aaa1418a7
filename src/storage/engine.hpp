// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "storage/backend.hpp"
#include "storage/direct_file.hpp"
#include "storage/observer.hpp"

namespace dos::storage {

/// Told how a transfer ended: "" when all of it was done, else what went wrong, naming the file,
/// the place in it and the cause. Called from the engine's thread: it must neither block nor throw;
/// it may submit.
using Done = std::function<void(const std::string& fault)>;

struct Transfer;

struct EngineOptions {
  Index depth = 8;              ///< operations under way on a device
  Index block_bytes = 4 << 20;  ///< at most, of an operation; a multiple of every alignment
};

/// Most memory of an engine's own buffers, a device.
constexpr Index buffer_bytes(const EngineOptions& options = {}) {
  return options.depth * options.block_bytes;
}

/// Reads and writes files beside the program: all storage of a run goes through it. Transfers are
/// cut into blocks, of which each device has `depth` under way, in the order of submission; large
/// blocks go past the page cache (cut_into_blocks()). Activations come first, what is read of them
/// before what is written; while any engine of the process has some of them on a device, all else
/// is moved there one block at a time. Short and interrupted transfers are
/// continued; where the system lacks something for a moment (EAGAIN), all wait for up to 10 ms
/// between two tries. A transfer that fails ends with its fault, and no other suffers from it.
/// Where the backend itself fails, or there is no memory, all that are open, and all to come, end
/// with that.
///
/// Memory whose address modulo the file's alignment is that of its offset is read and written in
/// place; other memory goes through buffers of the engine, at most depth x block_bytes a device.
/// All functions are thread-safe.
class Engine {
 public:
  explicit Engine(const EngineOptions& options = {},
                  std::unique_ptr<Backend> backend = make_backend());
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Waits for all transfers.
  ~Engine();

  /// Begins to fill `memory` from bytes `offset` on. File and memory must live until `done`
  /// is called. A file that ends before is a fault.
  void read(const DirectFile& file, Index offset, std::span<std::byte> memory, Done done,
            const Label& label = {});
  /// Begins to write `memory`, as above.
  void write(const DirectFile& file, Index offset, std::span<const std::byte> memory, Done done,
             const Label& label = {});
  /// Brings to the device what was submitted for the file before (fdatasync).
  void sync(const DirectFile& file, Done done, const Label& label = {});

  /// Begins no operation of the file's transfers that has not begun, so that from now on nobody but
  /// the system looks at their memory: they end with a fault, as soon as what is under way has
  /// ended. Not from a Done.
  void drop(const DirectFile& file);

  /// Until every transfer has ended and its Done has returned. Not from a Done.
  void wait_all();

  /// Of all engines of the process, transfers that have not ended.
  [[nodiscard]] static Index open_transfers() { return open_transfers_; }

  /// Tells `observer`, which must outlive the engine, of each transfer that ends: its bytes that
  /// were moved, from the start of its first operation to the end of its last. Null: nobody.
  void observe(Observer* observer);
  /// For who prepares transfers, to tell of that. Null: nobody looks on.
  [[nodiscard]] Observer* observer() const;

  /// "io_uring" or "threads".
  [[nodiscard]] const char* backend() const;

 private:
  class Worker;
  static inline std::atomic<Index> open_transfers_ = 0;

  void submit(std::shared_ptr<Transfer> transfer);

  std::unique_ptr<Worker> worker_;
  std::thread thread_;
};

}  // namespace dos::storage
