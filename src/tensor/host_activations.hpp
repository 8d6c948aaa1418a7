// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "rt/device.hpp"
#include "rt/host_buffer.hpp"
#include "rt/session.hpp"
#include "tensor/activation_store.hpp"

namespace dos::tensor {

/// Activations in host memory from forward to backward, while devices have other blocks' in the
/// same buffers. A slot is the home of a buffer while the buffer has what belongs there, so that a
/// device's copy goes there and comes back, and none is made within host memory; what CPUs compute
/// is in its slot from the start.
///
///   set_home()  write access  before forward of a block that uses the buffer
///   store()     read access   behind it: what a device has made is copied home
///   load()      write access  before backward: the slot is the home again, with its contents
///               read access   on the device, which has them copied before a task asks for them
///
/// All is ordered by these accesses, and nobody waits but who needs the buffer.
class HostActivations final : public ActivationStore {
 public:
  /// The session outlives it.
  explicit HostActivations(rt::Session& session) : session_(session) {}
  /// Pre: the buffers whose homes are slots are gone.
  ~HostActivations();

  /// Throws Error when the system refuses the memory.
  Index add(Index bytes, int node) override;
  void reserve() override {}
  [[nodiscard]] bool is_usable() const override { return true; }
  /// For rt::HandleSpec::lent.
  [[nodiscard]] std::byte* memory_of(Index slot) const;

  /// The home of what the tasks submitted from now on make of the buffer, which was lent a slot.
  /// What it contains is lost, unless it was stored.
  void set_home(Index slot, const rt::Handle& buffer);
  void store(Index slot, const rt::Handle& buffer) override;
  void load(Index slot, const rt::Handle& buffer) override;

 private:
  struct Slot {
    rt::HostBuffer memory;
    int node;  ///< who reads it
  };

  rt::Session& session_;
  std::vector<Slot> slots_;
  Index bytes_ = 0;  ///< of all slots
};

}  // namespace dos::tensor
