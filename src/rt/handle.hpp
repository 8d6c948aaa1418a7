// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/types.hpp"
#include "rt/host_buffer.hpp"
#include "rt/memory_ledger.hpp"
#include "rt/mode.hpp"
#include "rt/session.hpp"

struct _starpu_data_state;

namespace dos::rt {

using RawHandle = _starpu_data_state*;

/// The contents are of no use once the tasks submitted so far are done, but others may hint at the
/// buffer before it is written again: its home counts as all that is valid, with what is there, and
/// devices need not write theirs back for other buffers to have the memory. Returns at once. Pre:
/// it has a home.
void drop_copies(RawHandle buffer);

/// Name, element type, element count and purpose of a buffer.
struct HandleSpec {
  std::string name;
  DType type = DType::kF32;
  Index count = 0;
  MemoryCategory category = MemoryCategory::kActivations;
  std::byte* lent = nullptr;  ///< memory of somebody who counts it; null: the handle has its own
  /// A memory node where the buffer has memory for itself, which nothing else is ever given, beside
  /// its home; 0: none.
  int kept_on = 0;
  /// Elements for which devices allocate memory; 0: count. Buffers with the same can use memory of
  /// each other. Pre: 0, or at least count.
  Index room = 0;
  /// Tasks of devices alone use it, and nothing of it is ever wanted on the host: its home takes no
  /// memory, unless StarPU puts contents there that a device has no room for. Pre: not lent.
  bool stays_on_devices = false;
};

/// Owns one StarPU vector: its home buffer in host memory (zeroed, unless it is lent) and its
/// registration. The session must outlive it. Destruction waits for the tasks that use it. Not
/// movable: tasks refer to it by address.
class Handle {
 public:
  /// Throws Error when memory is refused, of the host or of HandleSpec::kept_on, or the count is
  /// above 2^32 - 1, StarPU's limit for a vector.
  Handle(Session& session, HandleSpec spec);
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  /// Work space that tasks take in Mode::kScratch: StarPU allocates one for each worker that needs
  /// it, which counts as host memory where none is a CUDA device: these run what needs it, then.
  static std::unique_ptr<Handle> scratch(Session& session, std::string name, DType type,
                                         Index count);

  /// The contents are of no use once the tasks submitted so far are done: memory nodes of devices
  /// get the memory of their copies back, for other buffers. The next task to use the buffer must
  /// write all of it. Returns at once.
  void release() const;
  /// As the function below, of this buffer.
  void drop_copies() const { rt::drop_copies(raw_); }
  /// Whether the buffer had memory on the node when its contents were last released.
  [[nodiscard]] bool was_released_from(int node) const noexcept;

  /// The buffer's home is from now on this lent memory, whatever it contains. Pre:
  /// HandleSpec::lent; the caller has write access, on the host or where the buffer is kept, so
  /// that nobody knows of another place.
  void move_home(std::byte* lent) const;

  /// Schedulers take this buffer and `other`, which outlives it, for one that tasks use in turns.
  void stand_for(const Handle& other) const;

  /// Its own memory on the host: what it contains, while no other node has newer contents. Pre: it
  /// has some.
  [[nodiscard]] const std::byte* home() const { return home_.value().data(); }

  [[nodiscard]] RawHandle raw() const noexcept { return raw_; }
  [[nodiscard]] const std::string& name() const noexcept { return spec_.name; }
  [[nodiscard]] DType type() const noexcept { return spec_.type; }
  [[nodiscard]] MemoryCategory category() const noexcept { return spec_.category; }
  [[nodiscard]] Index count() const noexcept { return spec_.count; }
  [[nodiscard]] Index bytes() const noexcept { return spec_.count * size_of(spec_.type); }
  [[nodiscard]] Index room() const noexcept { return std::max(spec_.room, spec_.count); }

 private:
  struct ScratchTag {};
  void register_home();
  void register_kept();
  void note_copies() const noexcept;
  Handle(Session& session, HandleSpec spec, ScratchTag);

  Session& session_;
  HandleSpec spec_;
  Index counted_bytes_;
  std::optional<HostBuffer> home_;
  std::uintptr_t kept_ = 0;  ///< memory of HandleSpec::kept_on
  RawHandle raw_ = nullptr;
  Index trace_number_ = -1;                              ///< -1: no trace knows of it
  mutable std::atomic<std::uint64_t> released_from_{0};  ///< bits: memory nodes
};

/// Access from the submitting thread: blocks until the tasks submitted before allow it, and gives
/// the buffer back when destroyed.
class HostAccess {
 public:
  HostAccess(const Handle& handle, Mode mode);
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;
  ~HostAccess();

  /// The elements; T must have the size of the handle's type.
  template <class T>
  [[nodiscard]] std::span<T> as() const {
    require(static_cast<Index>(sizeof(T)) == size_of(handle_.type()),
            "element size of a host access");
    return {static_cast<T*>(data_), static_cast<std::size_t>(handle_.count())};
  }
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data_), static_cast<std::size_t>(handle_.bytes())};
  }

 private:
  const Handle& handle_;
  void* data_ = nullptr;
};

}  // namespace dos::rt
