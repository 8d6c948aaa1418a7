// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/types.hpp"

namespace dos::rt {

/// Zeroed host memory, pinned for the GPUs that StarPU drives. Large buffers start at a 2 MiB
/// boundary and ask for huge pages. Pages are touched by whoever uses them first. Throws Error when
/// the system refuses the memory. Pre: StarPU is initialised until after destruction.
class HostBuffer {
 public:
  explicit HostBuffer(Index bytes);
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&&) = delete;
  ~HostBuffer();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t mapped_bytes_ = 0;
};

}  // namespace dos::rt
