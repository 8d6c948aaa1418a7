// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/memory_category.hpp"
#include "storage/direct_file.hpp"

namespace dos::storage {

/// What a transfer is for.
enum class Purpose : std::uint8_t {
  kUnknown,
  kCheckpoint,
  kCheckpointCopy,  ///< from one level of checkpoints to the next
  kStates,          ///< of the optimizer, which live on disks
  kActivations,     ///< on disks from forward to backward
};

/// Whom a transfer serves: for those who look on. The name lives until the transfer's Done.
struct Label {
  Purpose purpose = Purpose::kUnknown;
  Index step = 0;                                   ///< of training; 0: of none
  std::string_view buffer{};                        ///< whose bytes they are; "": of none
  MemoryCategory category = MemoryCategory::kData;  ///< of the buffer
};

/// What happens to a buffer between memory and a file.
enum class Activity : std::uint8_t {
  kRead,   ///< its bytes come from the file
  kWrite,  ///< its bytes go to the file
  kFlush,  ///< what was written goes to the device
  kCopy,   ///< its bytes go to other memory first
  kHold,   ///< nobody may change it, since its bytes are needed
  kWait,   ///< of a hold: a task had nothing else to wait for
};

/// "read", "checkpoint": as traces call them; "" for kUnknown.
const char* name_of(Activity activity);
const char* name_of(Purpose purpose);

/// Something that has ended.
struct Observation {
  Activity activity = Activity::kRead;
  const DirectFile* file = nullptr;  ///< null: in memory alone
  Label label{};
  Index bytes = 0;
  std::chrono::steady_clock::time_point start{};
  std::chrono::steady_clock::time_point end{};
};

/// Looks on. Engine tells of its transfers; those who prepare them, of the rest.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// On the thread that did it, which must not wait. What is given lives until this returns.
  virtual void saw(const Observation& observation) noexcept = 0;

 protected:
  ~Observer() = default;
};

}  // namespace dos::storage
