// SPDX-License-Identifier: Apache-2.0
#include "tensor/host_activations.hpp"

#include <memory>

#include "base/error.hpp"
#include "rt/access.hpp"
#include "rt/device.hpp"

namespace dos::tensor {
namespace {

/// Gives a buffer another home once nobody uses it; deletes itself then.
class Removal final : public rt::AccessListener {
 public:
  Removal(const rt::Handle& buffer, std::byte* home) : buffer_(buffer), home_(home) {}

  void granted(void* /*data*/) noexcept override {
    const std::unique_ptr<Removal> over(this);
    buffer_.move_home(home_);
    rt::end_access(buffer_, rt::kHostNode);
  }

 private:
  const rt::Handle& buffer_;
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
  rt::request_access(buffer, rt::kHostNode, rt::Mode::kWrite,
                     *new Removal(buffer, memory_of(slot)));
}

void HostActivations::store(Index /*slot*/, const rt::Handle& buffer) {
  rt::touch(buffer, rt::kHostNode, rt::Mode::kRead);
}

void HostActivations::load(Index slot, const rt::Handle& buffer) {
  set_home(slot, buffer);
  const int node = slots_[static_cast<std::size_t>(slot)].node;
  if (node != rt::kHostNode) rt::touch(buffer, node, rt::Mode::kRead);
}

}  // namespace dos::tensor
