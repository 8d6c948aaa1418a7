// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.hpp"

namespace dos::rt {

/// Zeroed host memory. Large buffers ask for huge pages, lie at page boundaries, and where they can
/// one before the other, so that all of them but a part of one is in such pages. Throws Error when
/// the system refuses the memory. Pre: StarPU is initialised until after destruction.
class HostBuffer {
 public:
  enum class Pages : std::uint8_t {
    kPinned,   ///< for the GPUs that StarPU drives, if any, which takes all of them
    kOnDemand  ///< taken when somebody first writes there
  };

  explicit HostBuffer(Index bytes, Pages pages = Pages::kPinned);
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&&) = delete;
  ~HostBuffer();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  bool is_pinned_ = false;
};

}  // namespace dos::rt
