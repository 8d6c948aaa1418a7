// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/memory_category.hpp"
#include "base/types.hpp"
#include "rt/trace_sink.hpp"

namespace dos::trace {

/// A copy of a name, so that nobody has to keep it; longer names lose their end.
class Name {
 public:
  Name() = default;
  explicit Name(std::string_view text)
      : size_(static_cast<std::uint8_t>(std::min(text.size(), text_.size()))) {
    std::copy_n(text.begin(), size_, text_.begin());
  }
  [[nodiscard]] std::string_view view() const { return {text_.data(), size_}; }

 private:
  std::array<char, 88> text_{};
  std::uint8_t size_ = 0;
};

// What threads hand to the writer: values, without pointers to what may go.

struct TaskEvent {
  rt::TaskTrace task;  ///< its record's label is not used
  Name label;
};
struct CopyEvent {
  rt::CopyTrace copy;
};
struct PlacementEvent {
  rt::PlacementTrace placement;  ///< its subgroup is not used
  Name subgroup;
};
struct SpanEvent {
  Name name;
  Index step = 0;
  double start_us = 0;
  double end_us = 0;
};
struct CommunicationEvent {
  Name operation;
  Index peer = -1;
  Index bytes = 0;
  Index step = 0;
  double start_us = 0;
  double end_us = 0;
};
struct StorageEvent {
  const char* operation = "";  ///< of Storage, a literal
  const char* purpose = "";    ///< likewise
  Name disk{};
  Name buffer{};
  MemoryCategory category{};
  Index bytes = 0;
  Index step = 0;
  double start_us = 0;
  double end_us = 0;
};

using Event =
    std::variant<SpanEvent, TaskEvent, CopyEvent, PlacementEvent, CommunicationEvent, StorageEvent>;
static_assert(std::is_trivially_copyable_v<Event>);

}  // namespace dos::trace
