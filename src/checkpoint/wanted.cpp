// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/wanted.hpp"

#include <algorithm>

#include "checkpoint/tensor_listing.hpp"

namespace dos::checkpoint {

WantedBytes::WantedBytes(const FileContents& contents,
                         const std::function<std::byte*(const Part&)>& memory_of)
    : by_tensor_(contents.tensors.size()) {
  for (const Part& part : contents.parts) {
    std::byte* const memory = memory_of(part);
    for (const Extent& extent : part.extents)
      by_tensor_[extent.tensor].push_back(
          {extent.tensor_offset, extent.tensor_offset + extent.bytes,
           memory == nullptr ? nullptr : memory + extent.buffer_offset});
  }
  for (auto& wanted : by_tensor_) std::ranges::sort(wanted, {}, &Wanted::begin);
}

bool WantedBytes::want(std::size_t tensor, Index begin, Index end) const {
  const auto next = std::ranges::upper_bound(by_tensor_[tensor], begin, {}, &Wanted::end);
  return next != by_tensor_[tensor].end() && next->begin < end;
}

std::vector<Slice> slices_of(const std::vector<Wanted>& wanted, Index begin, Index end,
                             Index stored, Index size) {
  std::vector<Slice> slices;
  const Index first_byte = begin / stored * size;
  const Index last_byte = end / stored * size;
  const auto first = std::ranges::upper_bound(wanted, first_byte, {}, &Wanted::end);
  for (auto each = first; each != wanted.end() && each->begin < last_byte; ++each) {
    const Index from = std::max(first_byte, each->begin);
    const Index to = std::min(last_byte, each->end);
    slices.push_back(
        {.offset = (from - first_byte) / size * stored,
         .memory = {each->memory + (from - each->begin), static_cast<std::size_t>(to - from)}});
  }
  return slices;
}

bool are_here(const io::CheckpointManifest& manifest, const FileContents& contents) {
  if (manifest.parts == 1) return true;
  const TensorListing listing = list_tensors(manifest);
  const WantedBytes wanted(contents, [](const Part& /*part*/) { return nullptr; });
  for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
    const io::TensorSpec& tensor = contents.tensors[i];
    const auto found = listing.find(tensor.name);
    if (found == listing.end() || wanted.of(i).empty()) continue;
    const Index size = size_of(tensor.dtype.dtype().value());
    const Index row = tensor.shape.size() < 2 ? 1 : tensor.shape[1];
    for (const ListedTensor& place : found->second) {
      const Index stored = std::max<Index>(1, place.record->dtype.bits() / 8);
      Index element = place.first * row;
      for (const io::PieceSum& piece : place.record->pieces) {
        const Index end = element + piece.bytes / stored;
        if (piece.part != manifest.part && wanted.want(i, element * size, end * size)) return false;
        element = end;
      }
    }
  }
  return true;
}

}  // namespace dos::checkpoint
