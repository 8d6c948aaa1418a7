// SPDX-License-Identifier: Apache-2.0
#include "tensor/host_activations.hpp"

#include <memory>

#include "base/error.hpp"
#include "rt/access.hpp"
#include "rt/device.hpp"

namespace dos::tensor {
namespace {

/// An access that is over as soon as it is granted; deletes itself then.
class Instant final : public rt::AccessListener {
 public:
  /// `home`: what the buffer has as its home from then on; null: what it had.
  static void request(const rt::Handle& buffer, int node, rt::Mode mode,
                      std::byte* home = nullptr) {
    rt::request_access(buffer, node, mode, *new Instant(buffer, node, home));
  }

  void granted(void* /*data*/) noexcept override {
    const std::unique_ptr<Instant> over(this);
    if (home_ != nullptr) buffer_.move_home(home_);
    rt::end_access(buffer_, node_);
  }

 private:
  Instant(const rt::Handle& buffer, int node, std::byte* home)
      : buffer_(buffer), node_(node), home_(home) {}

  const rt::Handle& buffer_;
  int node_;
  std::byte* home_;
};

}  // namespace

HostActivations::~HostActivations() {
  session_.memory().remove(MemoryCategory::kActivations, bytes_);
}

Index HostActivations::add(Index bytes, int node) {
  slots_.push_back({rt::HostBuffer(bytes), node});
  bytes_ += bytes;
  session_.memory().add(MemoryCategory::kActivations, bytes);
  return std::ssize(slots_) - 1;
}

std::byte* HostActivations::memory_of(Index slot) const {
  return slots_[static_cast<std::size_t>(slot)].memory.data();
}

void HostActivations::set_home(Index slot, const rt::Handle& buffer) {
  Instant::request(buffer, rt::kHostNode, rt::Mode::kWrite, memory_of(slot));
}

void HostActivations::store(Index /*slot*/, const rt::Handle& buffer) {
  Instant::request(buffer, rt::kHostNode, rt::Mode::kRead);
}

void HostActivations::load(Index slot, const rt::Handle& buffer) {
  set_home(slot, buffer);
  const int node = slots_[static_cast<std::size_t>(slot)].node;
  if (node != rt::kHostNode) Instant::request(buffer, node, rt::Mode::kRead);
}

}  // namespace dos::tensor
