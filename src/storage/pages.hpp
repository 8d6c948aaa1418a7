// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "base/types.hpp"

namespace dos::storage {

/// Memory of whole pages, large ones where the kernel has them: a direct transfer to or from them
/// takes a third of the processor's time.
class Pages {
 public:
  /// Throws Error when there is no such memory. Pre: bytes > 0.
  explicit Pages(Index bytes);
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();

  /// Bytes that memory for so many takes, in large pages.
  static Index taken(Index bytes);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {data_, static_cast<std::size_t>(bytes_)};
  }

 private:
  std::byte* data_ = nullptr;
  Index bytes_ = 0;
};

}  // namespace dos::storage
