// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "rt/handle.hpp"

namespace dos::tensor {

/// Has activations from forward to backward elsewhere than in the buffers that blocks share, a slot
/// for each. The submitting thread's, all of it.
class ActivationStore {
 public:
  ActivationStore() = default;
  ActivationStore(const ActivationStore&) = delete;
  ActivationStore& operator=(const ActivationStore&) = delete;

  /// A slot of so many bytes, for contents that tasks need in the memory of this node
  /// (rt::Device::node, or rt::kHostNode): slots are numbered from 0 on. Pre: reserve() was not
  /// called.
  virtual Index add(Index bytes, int node) = 0;
  /// All slots are there. Throws Error where there is no room for them.
  virtual void reserve() = 0;
  /// False once something could not be stored, and had to stay in memory: better store nothing
  /// more. What was stored can be loaded.
  [[nodiscard]] virtual bool is_usable() const = 0;

  /// What the tasks submitted so far make of the buffer goes to the slot, before tasks that are
  /// submitted later change it.
  virtual void store(Index slot, const rt::Handle& buffer) = 0;
  /// Tasks submitted from now on find in the buffer what was stored, copied to the slot's node
  /// before they ask for it. Pre: store(), a buffer of the slot's bytes.
  virtual void load(Index slot, const rt::Handle& buffer) = 0;

 protected:
  ~ActivationStore() = default;
};

}  // namespace dos::tensor
