// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

#include "storage/observer.hpp"
#include "trace/recorder.hpp"

namespace dos::train {

/// Puts into a trace what goes between memory and files. The recorder outlives it.
class StorageTrace final : public storage::Observer {
 public:
  explicit StorageTrace(trace::Recorder& recorder) : recorder_(recorder) {}

  void saw(const storage::Observation& observation) noexcept override;

 private:
  trace::Name disk_of(const storage::DirectFile& file);

  trace::Recorder& recorder_;
  std::map<std::uint64_t, trace::Name> disks_;  ///< by device; the engine's thread's
};

}  // namespace dos::train
