// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target.hpp"
#include "io/safetensors_header.hpp"

/// A file of any bytes is refused in one line, or its tensors cover it.
void dos::test::fuzz(std::span<const std::byte> bytes) {
  const Index size = std::ssize(bytes);
  const io::SafetensorsHeader header = io::parse_header(bytes, size, "fuzz");
  Index end = header.tensors.empty() ? size : header.tensors.front().begin;
  for (const io::StoredTensor& tensor : header.tensors) {
    const bool is_whole = tensor.begin == end && tensor.end >= end && tensor.end <= size &&
                          io::byte_size(tensor.dtype, tensor.shape) == tensor.end - tensor.begin;
    if (!is_whole) broken("a tensor does not lie behind the one before it");
    end = tensor.end;
  }
  if (end != size) broken("bytes that belong to no tensor");
}
