// SPDX-License-Identifier: Apache-2.0
#include "storage/awaited.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "base/types.hpp"

namespace dos::storage {
namespace {

/// Of the process, as its devices are.
struct Board {
  std::mutex mutex;
  std::map<std::uint64_t, Index> open;  ///< by device, where there are any
  std::list<std::function<void()>> sleepers;
};

Board& board() {
  static Board all;
  return all;
}

}  // namespace

AwaitedTransfer::AwaitedTransfer(std::uint64_t device) : device_(device) {
  Board& all = board();
  const std::lock_guard lock(all.mutex);
  ++all.open[device];
}

AwaitedTransfer::~AwaitedTransfer() {
  Board& all = board();
  const std::lock_guard lock(all.mutex);
  const auto found = all.open.find(device_);
  if (--found->second > 0) return;
  all.open.erase(found);
  for (const auto& wake : all.sleepers) wake();
}

bool AwaitedTransfer::is_any(std::uint64_t device) {
  Board& all = board();
  const std::lock_guard lock(all.mutex);
  return all.open.contains(device);
}

AwaitedTransfer::Sleeper::Sleeper(std::function<void()> wake) {
  Board& all = board();
  const std::lock_guard lock(all.mutex);
  place_ = all.sleepers.insert(all.sleepers.end(), std::move(wake));
}

AwaitedTransfer::Sleeper::~Sleeper() {
  Board& all = board();
  const std::lock_guard lock(all.mutex);
  all.sleepers.erase(place_);
}

}  // namespace dos::storage
