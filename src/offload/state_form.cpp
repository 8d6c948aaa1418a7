// SPDX-License-Identifier: Apache-2.0
#include "offload/state_form.hpp"

#include <fmt/format.h>

#include "base/crc32c.hpp"
#include "base/error.hpp"

namespace dos::offload {

std::vector<codelets::ContentSum> sums_of(const StateForm& form, std::span<const std::byte> memory,
                                          Index looked_at) {
  std::vector<codelets::ContentSum> sums;
  const auto* elements = reinterpret_cast<const float*>(memory.data());
  Index offset = 0;
  for (const Index bytes : form.piece_bytes) {
    require(bytes <= std::ssize(memory) - offset, "pieces of this memory");
    const auto count = static_cast<std::size_t>(bytes / size_of(DType::kF32));
    sums.push_back(codelets::sum_of_content(std::span(elements, count), offset < looked_at));
    elements += count;
    offset += bytes;
  }
  require(offset == std::ssize(memory), "pieces fill the memory");
  return sums;
}

std::string difference(const StateForm& form, std::span<const codelets::ContentSum> sums,
                       std::span<const std::byte> memory) {
  Index offset = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const Index bytes = form.piece_bytes[i];
    const std::uint32_t found =
        crc32c(memory.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes)));
    if (found != sums[i].crc32c)
      return fmt::format("CRC-32C {:08x} instead of {:08x} at byte {}", found, sums[i].crc32c,
                         offset);
    offset += bytes;
  }
  return "";
}

}  // namespace dos::offload
